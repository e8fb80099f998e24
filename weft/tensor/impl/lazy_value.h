#pragma once

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
    const std::unique_ptr<T> gone(value_.exchange(nullptr, std::memory_order_relaxed));
  }

 private:
  std::atomic<T*> value_ = nullptr;
};

} // namespace weft
