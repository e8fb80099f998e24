#include "weft/checkpoint/write_files.h"

#include "weft/checkpoint/chunk_checksums.h"
#include "weft/files/crc32c.h"
#include "weft/files/safetensors_header.h"
#include "weft/files/share_work.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <set>
#include <span>
#include <thread>

namespace weft {

namespace {

/// What is written at once, from a multiple of it in the file: the page cache then keeps it as one large page, which is read and mapped
/// several times faster than small ones. It stays in a cache between the checksum and writing.
constexpr uint64_t kWriteStep = 2 << 20;
constexpr size_t kMostTexts = 1024; // of one call

/// What the bytes of a tensor are in the file: dtype and shape.
SafetensorsEntry entry_of(const WriteSource& source) {
  const auto& tensor = source.tensor;
  SafetensorsEntry entry{source.name, tensor.scalar_type(), tensor.sizes().vec(), 0, 0};
  if (c10::isComplexType(entry.dtype) && !has_safetensors_dtype(entry.dtype)) {
    entry.dtype = c10::toRealValueType(entry.dtype);
    entry.sizes.push_back(2);
  }
  TORCH_CHECK_TYPE(
      has_safetensors_dtype(entry.dtype), "[save] tensor '", source.name,
      "' must be of a dtype that safetensors files have, but got ", entry.dtype, ". Convert it.");
  entry.bytes = static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
  return entry;
}

/// A file under a temporary name.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {
    file_ = ::open(temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    check(file_ >= 0, "cannot be created");
  }
  ~TemporaryFile() {
    if (file_ >= 0) {
      ::close(file_);
      ::unlink(temporary().c_str());
    }
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  /// Writes texts one after the other, from `at` on.
  void write(uint64_t at, std::span<iovec> texts) const {
    while (!texts.empty()) {
      const auto written = ::pwritev(file_, texts.data(), static_cast<int>(texts.size()), static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) {
        continue;
      }
      check(written > 0, "cannot be written");
      at += static_cast<uint64_t>(written);
      auto left = static_cast<size_t>(written);
      while (!texts.empty() && left >= texts.front().iov_len) {
        left -= texts.front().iov_len;
        texts = texts.subspan(1);
      }
      if (left > 0) {
        texts.front().iov_base = static_cast<char*>(texts.front().iov_base) + left;
        texts.front().iov_len -= left;
      }
    }
  }

  void complete() {
    check(::fsync(file_) == 0, "cannot be written");
    check(::close(std::exchange(file_, -1)) == 0, "cannot be written");
    const bool is_renamed = ::rename(temporary().c_str(), path_.c_str()) == 0;
    if (!is_renamed) {
      ::unlink(temporary().c_str());
    }
    check(is_renamed, "cannot be renamed");
  }

 private:
  std::string temporary() const {
    return path_ + ".part";
  }
  void check(bool condition, const char* what) const {
    TORCH_CHECK_VALUE(condition, "[save] ", path_, ": ", what, ": ", std::strerror(errno), ".");
  }

  std::string path_;
  int file_ = -1;
};

/// Consecutive bytes of a tensor in memory.
struct WriteItem {
  size_t tensor;
  const char* data;
  uint64_t from; // in the tensor
  uint64_t bytes;
  std::vector<uint32_t> checksums = {}; // of the bytes in each chunk of checksums
};

class FilesWriter {
 public:
  FilesWriter(c10::ArrayRef<WriteSource> sources, const WriteSettings& settings)
      : sources_(sources), settings_(settings) {
    result_.tensors.resize(sources.size());
    checksums_.resize(sources.size());
  }

  WrittenFiles run() {
    std::vector<SafetensorsEntry> entries;
    for (const auto& source : sources_) {
      entries.push_back(entry_of(source));
    }
    // Larger elements first, so that all tensors are aligned.
    std::vector<size_t> order(sources_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return c10::elementSize(entries[a].dtype) > c10::elementSize(entries[b].dtype);
    });
    try {
      std::vector<size_t> members;
      std::set<std::string> names;
      uint64_t bytes = 0;
      for (const auto t : order) {
        const bool is_full = !members.empty() && bytes + entries[t].bytes > settings_.max_file_bytes;
        if (is_full || names.contains(entries[t].name)) {
          write_file(members, entries);
          members.clear();
          names.clear();
          bytes = 0;
        }
        members.push_back(t);
        names.insert(entries[t].name);
        bytes += entries[t].bytes;
      }
      if (!members.empty()) {
        write_file(members, entries);
      }
    } catch (...) {
      for (const auto& file : result_.files) {
        ::unlink((settings_.folder + "/" + file.name).c_str());
      }
      throw;
    }
    for (size_t t = 0; t < checksums_.size(); ++t) {
      if (checksums_[t].bytes > 0) {
        result_.tensors[t].checksums = std::make_shared<const ChunkChecksums>(std::move(checksums_[t]));
      }
    }
    return std::move(result_);
  }

 private:
  void write_file(const std::vector<size_t>& members, const std::vector<SafetensorsEntry>& all) {
    std::vector<SafetensorsEntry> entries;
    for (const auto t : members) {
      entries.push_back(all[t]);
    }
    const auto start = make_safetensors_header(entries, {{"format", "pt"}}, "save");
    const auto name = c10::str(
        settings_.prefix, "_", settings_.first_number + static_cast<int64_t>(result_.files.size()), ".safetensors");
    TemporaryFile file(settings_.folder + "/" + name);
    iovec header = {const_cast<char*>(start.data()), start.size()};
    file.write(0, {&header, 1});
    for (size_t i = 0; i < members.size(); ++i) {
      result_.tensors[members[i]] = {result_.files.size(), entries[i].begin, nullptr};
    }
    // A tensor that has to be copied first is in memory twice, one at a time; all others are written by several threads at once.
    std::vector<WriteItem> items;
    for (const auto t : members) {
      const auto& tensor = sources_[t].tensor;
      if (tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
        add_items(t, tensor, items);
      }
    }
    write_items(file, items);
    for (const auto t : members) {
      const auto& tensor = sources_[t].tensor;
      if (!(tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg())) {
        const auto copy = tensor.resolve_conj().resolve_neg().cpu().contiguous();
        std::vector<WriteItem> of_copy;
        add_items(t, copy, of_copy);
        write_items(file, of_copy);
      }
    }
    file.complete();
    const auto& last = entries.back();
    result_.files.push_back({name, last.begin + last.bytes});
  }

  void add_items(size_t t, const at::Tensor& tensor, std::vector<WriteItem>& items) {
    const auto* data = static_cast<const char*>(tensor.const_data_ptr());
    const auto bytes = static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
    const auto begin = result_.tensors[t].begin;
    for (uint64_t from = 0; from < bytes;) {
      const auto to = std::min(bytes, ((begin + from) / kWriteStep + 1) * kWriteStep - begin);
      items.push_back({t, data + from, from, to - from});
      from = to;
    }
    auto& checksums = checksums_[t];
    checksums.begin = begin;
    checksums.bytes = bytes;
    checksums.chunk_bytes = chunk_bytes_of(bytes);
    checksums.values.assign((bytes + checksums.chunk_bytes - 1) / checksums.chunk_bytes, 0);
  }

  uint64_t begin_of(const WriteItem& item) const {
    return checksums_[item.tensor].begin + item.from;
  }

  /// The items by steps of the file: what several tensors have of one is written at once.
  std::vector<std::span<WriteItem>> steps_of(std::vector<WriteItem>& items) const {
    std::vector<std::span<WriteItem>> steps;
    size_t first = 0;
    for (size_t i = 1; i <= items.size(); ++i) {
      const bool goes_on = i < items.size() && i - first < kMostTexts &&
          begin_of(items[i]) == begin_of(items[i - 1]) + items[i - 1].bytes &&
          begin_of(items[i]) / kWriteStep == begin_of(items[first]) / kWriteStep;
      if (!goes_on) {
        steps.emplace_back(items.data() + first, i - first);
        first = i;
      }
    }
    return steps;
  }

  void write_items(const TemporaryFile& file, std::vector<WriteItem>& items) {
    const auto threads = settings_.threads > 0 ? static_cast<size_t>(settings_.threads)
                                               : std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 2);
    const auto steps = steps_of(items);
    share_work(threads, steps.size(), [&](const NextItem& next) {
      std::vector<iovec> texts;
      while (const auto i = next()) {
        texts.clear();
        for (auto& item : steps[*i]) {
          add_checksums(
              checksums_[item.tensor], begin_of(item), begin_of(item), {item.data, item.bytes}, item.checksums);
          texts.push_back({const_cast<char*>(item.data), item.bytes});
        }
        file.write(begin_of(steps[*i].front()), texts);
      }
    });
    for (const auto& item : items) {
      auto& checksums = checksums_[item.tensor];
      const auto begin = begin_of(item);
      const auto* next = item.checksums.data();
      for_each_chunk(checksums, begin, begin + item.bytes, [&](uint64_t number, uint64_t from, uint64_t to) {
        checksums.values[number] = joined_crc32c(checksums.values[number], *next++, to - from);
      });
    }
  }

  c10::ArrayRef<WriteSource> sources_;
  const WriteSettings& settings_;
  WrittenFiles result_;
  std::vector<ChunkChecksums> checksums_; // of the tensors
};

} // namespace

WrittenFiles write_tensors(c10::ArrayRef<WriteSource> sources, const WriteSettings& settings) {
  return FilesWriter(sources, settings).run();
}

void make_synced_folder(const std::string& folder, const char* where) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<fs::path> parents; // of the new folders
  for (auto path = fs::absolute(folder).lexically_normal(); !fs::exists(path, error); path = path.parent_path()) {
    parents.push_back(path.parent_path());
  }
  fs::create_directories(folder, error);
  TORCH_CHECK_VALUE(
      fs::is_directory(folder), "[", where, "] ", folder,
      ": a folder is required, but it cannot be made: ", error ? error.message() : "it is a file", ".");
  for (const auto& parent : parents) {
    sync_folder(parent.string());
  }
}

void sync_folder(const std::string& folder) {
  const auto descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

} // namespace weft
