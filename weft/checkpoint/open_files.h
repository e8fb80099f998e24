#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <list>
#include <mutex>

namespace weft {

/// Reads ranges of the files of stored tensors, by several threads at once. A file is opened when it is first read, and at most 64
/// stay open: a checkpoint may have more files than a process may open.
class OpenFiles {
 public:
  /// Errors begin with [where].
  OpenFiles(const StoredTensors& stored, const char* where) : stored_(stored), where_(where) {}

  /// Reads `bytes` bytes from `begin` on. Raises for a file that cannot be read, or that does not have its length.
  void read(size_t file, uint64_t begin, char* to, uint64_t bytes);

  /// How many are open.
  size_t count() {
    const std::lock_guard lock(mutex_);
    return open_.size();
  }

 private:
  class Descriptor;

  std::shared_ptr<const Descriptor> opened(size_t file);

  const StoredTensors& stored_;
  const char* where_;
  std::mutex mutex_;
  std::list<std::pair<size_t, std::shared_ptr<const Descriptor>>> open_; // the last one that was read comes first
};

} // namespace weft
