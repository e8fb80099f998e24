#pragma once

#include <ATen/ThreadLocalPythonObjects.h>

#include <atomic>
#include <memory>
#include <string>

namespace weft {

/// A thread-local value that is also set on other threads which work for this thread, as grad mode is: autograd runs
/// backward for CUDA devices on threads of its own, and restores there the at::ThreadLocalState of the calling thread.
/// So do at::launch and at::wrapPropagateTLSState. A plain thread_local variable would have its default value there.
///
/// at::ThreadLocalState keeps objects of Python extensions by name. It also keeps an object that holds nothing of
/// Python, which needs no interpreter. (c10::ThreadLocalDebugInfo is restored on other threads too, but shares one
/// stack with the profiler: a profiler could not stop within a scope that was opened after it.)
///
/// T has a name and a count, which one source file defines: if this header defined them, a library that hides its
/// symbols would have a count of its own.
///
///   struct Chosen {
///     static const std::string kCarriedName;
///     static std::atomic<int64_t> carried_count;
///   };
template <class T>
class CarriedValue {
 public:
  /// Whether any thread, or any saved at::ThreadLocalState, has a value. Costs one load; most calls need no more, as it
  /// is false.
  static bool is_anywhere() {
    return T::carried_count.load(std::memory_order_relaxed) != 0;
  }
  /// This thread's value, or nullptr if it has none. Valid until the thread sets another one.
  static const T* get() {
    using at::impl::ThreadLocalPythonObjects;
    if (!is_anywhere() || !ThreadLocalPythonObjects::contains(T::kCarriedName)) {
      return nullptr;
    }
    const auto* holder = static_cast<const Holder*>(ThreadLocalPythonObjects::get(T::kCarriedName).get());
    return holder == nullptr ? nullptr : &holder->value;
  }
  static void set(T value) {
    at::impl::ThreadLocalPythonObjects::set(T::kCarriedName, std::make_shared<Holder>(std::move(value)));
  }
  static void reset() {
    at::impl::ThreadLocalPythonObjects::set(T::kCarriedName, nullptr);
  }

 private:
  struct Holder : c10::SafePyObject {
    explicit Holder(T held) : SafePyObject(nullptr, nullptr), value(std::move(held)) {
      T::carried_count.fetch_add(1, std::memory_order_relaxed);
    }
    ~Holder() {
      T::carried_count.fetch_sub(1, std::memory_order_relaxed);
    }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    T value;
  };
};

} // namespace weft
