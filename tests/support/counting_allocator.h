#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

namespace weft::testing {

/// Counts what is allocated on the CPU, by all threads. It must outlive what it has allocated, so that it is mostly static.
class CountingAllocator final : public c10::Allocator {
 public:
  CountingAllocator() : inner_(c10::GetDefaultCPUAllocator()) {}

  c10::DataPtr allocate(size_t bytes) override {
    struct Block {
      c10::DataPtr data;
      size_t bytes;
      CountingAllocator* owner;
    };
    auto data = inner_->allocate(bytes);
    auto* const address = data.get();
    now_ += bytes;
    peak_ = std::max<size_t>(peak_, now_);
    return {
        address, new Block{std::move(data), bytes, this},
        [](void* block) {
          const std::unique_ptr<Block> own(static_cast<Block*>(block));
          own->owner->now_ -= own->bytes;
        },
        c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    std::memcpy(to, from, count);
  }
  /// The bytes that are allocated, and the most that were since restart().
  size_t now() const {
    return now_;
  }
  size_t peak() const {
    return peak_;
  }
  void restart() {
    peak_ = now_.load();
  }

 private:
  c10::Allocator* inner_;
  std::atomic<size_t> now_ = 0;
  std::atomic<size_t> peak_ = 0;
};

/// Allocates by the allocator until the end of the scope.
class CountAllocations {
 public:
  explicit CountAllocations(CountingAllocator& allocator) {
    c10::SetCPUAllocator(&allocator);
  }
  ~CountAllocations() {
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator());
  }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;
};

} // namespace weft::testing
