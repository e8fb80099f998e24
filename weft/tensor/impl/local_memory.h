#pragma once

#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <mutex>

namespace weft {

/// A version counter that the first get() makes: few tensors need it, and it has memory of its own.
class LazyVersion {
 public:
  /// Two threads that call it at the same time get the same counter.
  const c10::VariableVersion& get() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (!is_made()) {
      version_ = c10::VariableVersion(0);
      is_made_.store(true, std::memory_order_release);
    }
    return version_;
  }
  /// 0 before the first get().
  uint32_t current() const {
    return C10_UNLIKELY(is_made()) ? version_.current_version() : 0;
  }

 private:
  bool is_made() const {
    return is_made_.load(std::memory_order_acquire);
  }

  std::atomic<bool> is_made_ = false;
  c10::VariableVersion version_{c10::VariableVersion::DISABLED};
};

/// Counts the writes to the memory of a local tensor, so that copies of its values can notice that they are out of
/// date. Distributed tensors that share the memory (views, detached tensors, `.data`) share one LocalMemory. Unlike
/// autograd's version counter it counts every write, also in inference mode and through `.data`.
class LocalMemory : public c10::intrusive_ptr_target {
 public:
  /// The number of writes so far. A copy is out of date once this is larger than when the copy was made.
  uint64_t writes() const {
    return writes_.load(std::memory_order_relaxed) + plain_writes_.current();
  }
  /// Every kernel that writes to a local tensor calls this before it writes.
  void count_write() {
    writes_.fetch_add(1, std::memory_order_relaxed);
  }
  /// The version counter of plain tensors that share this memory in inference mode, where the distributed tensor has
  /// none.
  const c10::VariableVersion& plain_writes() {
    return plain_writes_.get();
  }

  /// The version counter of plain tensors that share the memory of a copied view of this tensor: writes to them do not
  /// reach this memory.
  const c10::VariableVersion& writes_to_copies() {
    return writes_to_copies_.get();
  }
  /// Whether the user has written to such a plain tensor, so that neither this memory nor any copy of it is up to date.
  bool misses_writes() const {
    return writes_to_copies_.current() != 0;
  }

 private:
  std::atomic<uint64_t> writes_ = 0;
  LazyVersion plain_writes_;
  LazyVersion writes_to_copies_;
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
  C10_ALWAYS_INLINE LocalMemoryPtr get() const {
    auto* found = memory_.load(std::memory_order_acquire);
    return LocalMemoryPtr::reclaim_copy(C10_LIKELY(found != nullptr) ? found : make());
  }
  C10_ALWAYS_INLINE void set(LocalMemoryPtr memory) {
    reset();
    memory_.store(memory.release(), std::memory_order_release);
  }
  C10_ALWAYS_INLINE void reset() {
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
  C10_NOINLINE LocalMemory* make() const {
    LocalMemory* found = nullptr;
    auto made = c10::make_intrusive<LocalMemory>();
    return memory_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel) ? made.release() : found;
  }

  mutable std::atomic<LocalMemory*> memory_ = nullptr;
};

} // namespace weft
