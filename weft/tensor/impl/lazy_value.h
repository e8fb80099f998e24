#pragma once

#include <c10/macros/Macros.h>

#include <atomic>
#include <memory>

namespace weft {

/// A value that the first make() makes. Two threads that call it at the same time get the same value.
///
///   LazyValue<Rare> rare;
///   rare.find();            ->   nullptr
///   rare.make().field = x;  // rare.find()->field is x from now on
template <class T>
class LazyValue {
 public:
  LazyValue() = default;
  LazyValue(const LazyValue&) = delete;
  LazyValue& operator=(const LazyValue&) = delete;
  ~LazyValue() {
    reset();
  }

  T* find() const {
    return value_.load(std::memory_order_acquire);
  }
  T& make() {
    auto* found = find();
    if (found == nullptr) {
      auto made = std::make_unique<T>();
      if (value_.compare_exchange_strong(found, made.get(), std::memory_order_acq_rel)) {
        found = made.release();
      }
    }
    return *found;
  }
  /// Only where no other thread uses the value.
  void reset() {
    if (auto* gone = value_.load(std::memory_order_relaxed); C10_UNLIKELY(gone != nullptr)) {
      value_.store(nullptr, std::memory_order_relaxed);
      destroy(gone);
    }
  }

 private:
  /// Apart, so that an owner whose value was never made is destroyed in few instructions.
  C10_NOINLINE static void destroy(T* value) {
    delete value;
  }

  std::atomic<T*> value_ = nullptr;
};

} // namespace weft
