#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace weft::graph {

/// Memory for objects of one type, adjacent in the order of allocation, so that a walk over the objects reads memory in
/// order. Freed memory is used again. The caller constructs and destroys the objects.
template <class T>
class Pool {
 public:
  void* take() {
    if (!returned_.empty()) {
      auto* place = returned_.back();
      returned_.pop_back();
      return place;
    }
    if (used_ == size_) {
      size_ = std::clamp<size_t>(2 * size_, kFirst, kMost);
      blocks_.push_back(std::make_unique<Place[]>(size_));
      used_ = 0;
    }
    return &blocks_.back()[used_++];
  }
  void give_back(void* place) {
    returned_.push_back(place);
  }

 private:
  static constexpr size_t kFirst = 8;
  static constexpr size_t kMost = 1024;
  struct alignas(T) Place {
    Place() {} // left uninitialized, so that a page is first touched when it is allocated from
    std::byte bytes[sizeof(T)];
  };

  std::vector<std::unique_ptr<Place[]>> blocks_;
  size_t size_ = 0; // of the last block
  size_t used_ = 0;
  std::vector<void*> returned_;
};

} // namespace weft::graph
