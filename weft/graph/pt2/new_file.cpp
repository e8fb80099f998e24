#include "weft/graph/pt2/new_file.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace weft::graph {

namespace {

/// The path that symbolic links lead to, also if that file does not exist yet.
std::string resolved(std::filesystem::path path) {
  std::error_code error;
  constexpr int kMostLinks = 40; // the limit of Linux
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path, error); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  return path.string();
}

/// Whether the path is a device, a pipe or a socket, which a temporary file cannot replace.
bool is_special(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status);
}

} // namespace

NewFile::NewFile(std::string where, const std::string& path) : where_(std::move(where)), path_(path) {
  static std::atomic<int> count = 0;
  if (is_special(path)) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    target_ = resolved(path);
    temporary_ = c10::str(target_, ".", ::getpid(), ".", ++count, ".part");
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  check(file_ >= 0, "cannot be created");
}

NewFile::~NewFile() {
  if (file_ >= 0) {
    ::close(file_);
    remove_temporary();
  }
}

void NewFile::write(const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    // One call writes at most about 2 GiB.
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
  const bool is_closed = ::close(std::exchange(file_, -1)) == 0;
  check(is_closed && (temporary_.empty() || ::rename(temporary_.c_str(), target_.c_str()) == 0), "cannot be written");
}

void NewFile::remove_temporary() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void NewFile::check(bool condition, const char* what) {
  if (!condition) {
    const auto* reason = std::strerror(errno);
    remove_temporary();
    TORCH_CHECK_VALUE(false, "[", where_, "] ", path_, ": ", what, ": ", reason, ".");
  }
}

} // namespace weft::graph
