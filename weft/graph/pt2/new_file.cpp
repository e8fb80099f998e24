#include "weft/graph/pt2/new_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace weft::graph {

NewFile::NewFile(std::string where, const std::string& path) : where_(std::move(where)), path_(path) {
  static std::atomic<int> count = 0;
  temporary_ = c10::str(path, ".", ::getpid(), ".", ++count, ".part");
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  check(file_ >= 0, "cannot be created");
}

NewFile::~NewFile() {
  if (file_ >= 0) {
    ::close(file_);
    ::unlink(temporary_.c_str());
  }
}

void NewFile::write(const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    // A call takes at most about 2 GiB.
    const auto written = ::write(file_, at, std::min(size, size_t{1} << 30));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    check(written > 0, "cannot be written");
    at += written;
    size -= static_cast<size_t>(written);
  }
}

void NewFile::complete() {
  check(
      ::close(std::exchange(file_, -1)) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0, "cannot be written");
}

void NewFile::check(bool condition, const char* what) {
  if (!condition) {
    const auto* reason = std::strerror(errno);
    ::unlink(temporary_.c_str());
    TORCH_CHECK_VALUE(false, "[", where_, "] ", path_, ": ", what, ": ", reason, ".");
  }
}

} // namespace weft::graph
