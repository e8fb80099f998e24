#include "weft/checkpoint/open_files.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft {

namespace {

constexpr size_t kMostOpenFiles = 64;
constexpr uint64_t kWindow = 4 << 20; // large pages are mapped as such where a window has all of them

uint64_t size_of(int file) {
  struct stat status = {};
  return ::fstat(file, &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

} // namespace

/// Closes its file when the last thread that reads it is done.
class OpenFiles::Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const {
    return number_;
  }

 private:
  int number_;
};

std::shared_ptr<const OpenFiles::Descriptor> OpenFiles::opened(size_t file) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& entry) { return entry.first == file; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return found->second;
  }
  if (open_.size() == kMostOpenFiles) {
    open_.pop_back();
  }
  const auto path = stored_.path_of(file);
  const auto number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  TORCH_CHECK_VALUE(number >= 0, "[", where_, "] ", path, ": cannot be opened: ", std::strerror(errno), ".");
  auto descriptor = std::make_shared<const Descriptor>(number);
  check_size(file, *descriptor);
  open_.emplace_front(file, descriptor);
  return descriptor;
}

void OpenFiles::check_size(size_t file, const Descriptor& descriptor) const {
  const auto expected = stored_.files[file].bytes;
  const auto bytes = size_of(descriptor.number());
  TORCH_CHECK_VALUE(
      bytes == expected, "[", where_, "] ", stored_.path_of(file), ": a file of ", expected,
      " bytes is required, but it has ", bytes, ". It was truncated, or replaced by another one.");
}

const char* OpenFiles::mapped(Window& window, size_t file, uint64_t begin, uint64_t bytes) {
  if (window.file_ != file || !window.range_.contains(begin, begin + bytes)) {
    check(window);
    window.descriptor_ = nullptr;
    auto descriptor = opened(file);
    const auto first = begin / kWindow * kWindow;
    const auto last = std::min((begin + bytes + kWindow - 1) / kWindow * kWindow, stored_.files[file].bytes);
    if (begin + bytes > last || !window.range_.map(descriptor->number(), first, last)) {
      return nullptr;
    }
    window.descriptor_ = std::move(descriptor);
    window.file_ = file;
  }
  return window.range_.at(begin);
}

void OpenFiles::check(const Window& window) const {
  if (window.descriptor_ == nullptr) {
    return;
  }
  check_size(window.file_, *window.descriptor_);
  TORCH_CHECK_VALUE(
      window.range_.is_intact(), "[", where_, "] ", stored_.path_of(window.file_),
      ": its bytes are required, but reading failed: it was truncated meanwhile, or the disk is damaged.");
}

void OpenFiles::read(size_t file, uint64_t begin, char* to, uint64_t bytes) {
  const auto descriptor = opened(file);
  while (bytes > 0) {
    const auto got = ::pread(descriptor->number(), to, bytes, static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    TORCH_CHECK_VALUE(
        got > 0, "[", where_, "] ", stored_.path_of(file), ": ", bytes, " bytes at ", begin, " are required, but ",
        got == 0 ? "it ends before." : c10::str("reading failed: ", std::strerror(errno), "."));
    begin += static_cast<uint64_t>(got);
    to += got;
    bytes -= static_cast<uint64_t>(got);
  }
}

} // namespace weft
