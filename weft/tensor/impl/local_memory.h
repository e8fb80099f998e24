#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <mutex>

namespace weft {

/// Counts the writes to the memory of a local tensor, so that copies of its values can notice that they are out of
/// date. Distributed tensors that share the memory (views, detached tensors, `.data`) share one LocalMemory. Unlike
/// autograd's version counter it counts every write, also in inference mode and through `.data`.
class LocalMemory : public c10::intrusive_ptr_target {
 public:
  /// The number of writes so far. A copy is out of date once this is larger than when the copy was made.
  uint64_t writes() const {
    return writes_.load(std::memory_order_relaxed) + plain_writes_.current_version();
  }
  /// Every kernel that writes to a local tensor calls this before it writes.
  void count_write() {
    writes_.fetch_add(1, std::memory_order_relaxed);
  }
  /// The version counter of plain tensors that share this memory in inference mode, where the distributed tensor has
  /// none.
  const c10::VariableVersion& plain_writes() const {
    return plain_writes_;
  }

  /// The version counter of plain tensors that share the memory of a copied view of this tensor: writes to them do not
  /// reach this memory.
  const c10::VariableVersion& writes_to_copies() {
    static std::mutex mutex; // two threads may make the first call at once
    const std::lock_guard lock(mutex);
    if (!gives_copies_.load(std::memory_order_relaxed)) {
      writes_to_copies_ = c10::VariableVersion(0);
      gives_copies_.store(true, std::memory_order_release);
    }
    return writes_to_copies_;
  }
  /// Whether the user has written to such a plain tensor, so that neither this memory nor any copy of it is up to date.
  bool misses_writes() const {
    return C10_UNLIKELY(gives_copies_.load(std::memory_order_acquire)) && writes_to_copies_.current_version() != 0;
  }

 private:
  std::atomic<uint64_t> writes_ = 0;
  c10::VariableVersion plain_writes_{0};
  std::atomic<bool> gives_copies_ = false;
  c10::VariableVersion writes_to_copies_{c10::VariableVersion::DISABLED};
};

using LocalMemoryPtr = c10::intrusive_ptr<LocalMemory>;

/// A LocalMemory that the first get() makes: most tensors never share their memory, and cost only a pointer here.
class LazyLocalMemory {
 public:
  LazyLocalMemory() = default;
  LazyLocalMemory(const LazyLocalMemory&) = delete;
  LazyLocalMemory& operator=(const LazyLocalMemory&) = delete;
  ~LazyLocalMemory() {
    reset();
  }

  /// Two threads that call it at the same time get the same LocalMemory.
  LocalMemoryPtr get() const {
    auto* found = memory_.load(std::memory_order_acquire);
    if (found == nullptr) {
      auto made = c10::make_intrusive<LocalMemory>();
      if (memory_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
        found = made.release();
      }
    }
    return LocalMemoryPtr::reclaim_copy(found);
  }
  void set(LocalMemoryPtr memory) {
    reset();
    memory_.store(memory.release(), std::memory_order_release);
  }
  void reset() {
    if (auto* memory = memory_.load(std::memory_order_relaxed)) {
      memory_.store(nullptr, std::memory_order_relaxed);
      LocalMemoryPtr::reclaim(memory);
    }
  }
  /// Does nothing before the first get(): until then no copy and no other tensor refers to this memory.
  void count_write() const {
    if (auto* memory = memory_.load(std::memory_order_acquire)) {
      memory->count_write();
    }
  }
  bool misses_writes() const {
    const auto* memory = memory_.load(std::memory_order_acquire);
    return memory != nullptr && memory->misses_writes();
  }

 private:
  mutable std::atomic<LocalMemory*> memory_ = nullptr;
};

} // namespace weft
