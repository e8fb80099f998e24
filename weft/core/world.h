#pragma once

#include <c10/util/intrusive_ptr.h>

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

 private:
  int64_t rank_;
  int64_t size_;
};

using WorldPtr = c10::intrusive_ptr<World>;

} // namespace weft
