#pragma once

#include "weft/checkpoint/stored_tensors.h"
#include "weft/files/mapped_range.h"

#include <list>
#include <mutex>

namespace weft {

/// Reads ranges of the files of stored tensors, by several threads at once. A file is opened when it is first read, and at most 64
/// stay open: a checkpoint may have more files than a process may open.
class OpenFiles {
  class Descriptor;

 public:
  /// A range of one of the files as memory, for one thread.
  class Window {
    friend class OpenFiles;
    std::shared_ptr<const Descriptor> descriptor_ = {};
    size_t file_ = 0;
    MappedRange range_ = {};
  };

  /// Errors begin with [where].
  OpenFiles(const StoredTensors& stored, const char* where) : stored_(stored), where_(where) {}

  /// Reads `bytes` bytes from `begin` on. Raises for a file that cannot be read, or that does not have its length.
  void read(size_t file, uint64_t begin, char* to, uint64_t bytes);

  /// The bytes from `begin` on, which stay until the next call for this window; null where the file cannot be mapped. What is read there
  /// counts only when check(window) has passed.
  const char* mapped(Window& window, size_t file, uint64_t begin, uint64_t bytes);

  /// Raises if the file did not have all bytes of the window while they were read.
  void check(const Window& window) const;

  /// How many are open.
  size_t count() {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }

 private:
  std::shared_ptr<const Descriptor> opened(size_t file);
  void check_size(size_t file, const Descriptor& descriptor) const;

  const StoredTensors& stored_;
  const char* where_;
  std::mutex mutex_;
  std::list<std::pair<size_t, std::shared_ptr<const Descriptor>>> open_; // the last one that was read comes first
};

} // namespace weft
