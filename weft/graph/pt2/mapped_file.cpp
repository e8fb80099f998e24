#include "weft/graph/pt2/mapped_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace weft::graph {

namespace {

/// The address ranges of all maps, which tell whether a tensor's memory is mapped.
struct Maps {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;

  static Maps& all() {
    static auto* maps = new Maps();
    return *maps;
  }
  bool holds(uintptr_t begin, uintptr_t end) {
    const std::lock_guard lock(mutex);
    const auto after = ends.upper_bound(begin);
    return after != ends.begin() && end <= std::prev(after)->second;
  }
};

/// The addresses from the first byte of the tensor's elements to the byte after the last.
std::pair<uintptr_t, uintptr_t> extent(const at::Tensor& tensor) {
  const auto begin = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  return {begin, begin + (last + 1) * tensor.element_size()};
}

/// Releases only pages that are completely inside of the range: the other bytes of a page may have been written to.
void release_inner_pages(uintptr_t begin, uintptr_t end) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = (begin + page - 1) / page * page;
  const auto last = end / page * page;
  if (first < last) {
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}

struct FileDescriptor {
  int value;
  ~FileDescriptor() {
    if (value >= 0) {
      ::close(value);
    }
  }
};

} // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path, const std::string& where) {
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  TORCH_CHECK_VALUE(file.value >= 0, "[", where, "] ", path, ": cannot be opened: ", std::strerror(errno), ".");
  struct stat status = {};
  TORCH_CHECK_VALUE(::fstat(file.value, &status) == 0, "[", where, "] ", path, ": ", std::strerror(errno), ".");
  TORCH_CHECK_VALUE(S_ISREG(status.st_mode), "[", where, "] ", path, ": a file is required, but it is something else.");

  auto result = std::shared_ptr<MappedFile>(new MappedFile());
  result->name_ = path;
  result->size_ = static_cast<size_t>(status.st_size);
  if (result->size_ == 0) {
    return result;
  }
  // Private and writable, so that a program can update the buffers that it read in place.
  auto* data =
      ::mmap(nullptr, result->size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.value, /*offset=*/0);
  TORCH_CHECK_VALUE(data != MAP_FAILED, "[", where, "] ", path, ": cannot be mapped: ", std::strerror(errno), ".");
  result->data_ = static_cast<const char*>(data);
  result->is_mapped_ = true;
  auto& maps = Maps::all();
  const std::lock_guard lock(maps.mutex);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  maps.ends.emplace(begin, begin + result->size_);
  return result;
}

std::shared_ptr<const MappedFile> MappedFile::from_bytes(std::string bytes, std::string name) {
  auto result = std::shared_ptr<MappedFile>(new MappedFile());
  result->name_ = std::move(name);
  result->own_ = std::move(bytes);
  result->data_ = result->own_.data();
  result->size_ = result->own_.size();
  return result;
}

MappedFile::~MappedFile() {
  if (!is_mapped_) {
    return;
  }
  auto& maps = Maps::all();
  const std::lock_guard lock(maps.mutex);
  maps.ends.erase(reinterpret_cast<uintptr_t>(data_));
  ::munmap(const_cast<char*>(data_), size_);
}

void MappedFile::release(std::string_view bytes) const {
  if (is_mapped_) {
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    release_inner_pages(begin, begin + bytes.size());
  }
}

void release_pages(const at::Tensor& tensor) {
  const bool has_memory = tensor.defined() && tensor.has_storage() && tensor.device().is_cpu() && tensor.numel() > 0;
  if (!has_memory || tensor.is_inference() || tensor._version() != 0) {
    return;
  }
  const auto [begin, end] = extent(tensor);
  if (!Maps::all().holds(begin, end)) {
    return;
  }
  release_inner_pages(begin, end);
}

} // namespace weft::graph
