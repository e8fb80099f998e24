#pragma once

#include "weft/core/placement.h"

#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace weft {

/// One rank's position among the ranks that can communicate. weft/comm adds the communication.
class World : public c10::intrusive_ptr_target {
 public:
  World(int64_t rank, int64_t size) : rank_(rank), size_(size) {}

  int64_t rank() const {
    return rank_;
  }
  int64_t size() const {
    return size_;
  }

  /// Shards with unequal blocks by which this rank has distributed tensors, along dim 0, the oldest first. Where several layouts
  /// would do, these are the ones that the program uses; every rank has the same, since all run one program.
  std::vector<Placement> unequal_blocks() const {
    const std::scoped_lock lock(mutex_);
    return unequal_blocks_;
  }
  void note_unequal_blocks(const Placement& shard) {
    const std::scoped_lock lock(mutex_);
    const auto blocks = shard.along(0);
    if (std::find(unequal_blocks_.begin(), unequal_blocks_.end(), blocks) == unequal_blocks_.end()) {
      unequal_blocks_.push_back(blocks);
    }
  }

 private:
  int64_t rank_;
  int64_t size_;
  mutable std::mutex mutex_;
  std::vector<Placement> unequal_blocks_;
};

using WorldPtr = c10::intrusive_ptr<World>;

} // namespace weft
