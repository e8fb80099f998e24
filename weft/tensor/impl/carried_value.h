#pragma once

#include <ATen/ThreadLocalPythonObjects.h>

#include <atomic>
#include <memory>
#include <string>

namespace weft {

/// A value of this thread which follows the thread's work to other threads, as grad mode does: autograd runs backward on
/// CUDA devices on threads of its own, and brings with it what at::ThreadLocalState holds. So do at::launch and
/// at::wrapPropagateTLSState. A plain thread_local variable would have its default there.
///
/// torch keeps objects of Python extensions in at::ThreadLocalState, by name. An object without anything of Python in it is
/// kept just as well, and needs no interpreter. (c10::ThreadLocalDebugInfo is carried too, but is one stack with the
/// profiler's: a profiler could not stop within a scope that was opened after it.)
///
/// T has a name and a count, which one source file defines: a library that hides its symbols would have a count of its own
/// if this header did.
///
///   struct Chosen {
///     static const std::string kCarriedName;
///     static std::atomic<int64_t> carried_count;
///   };
template <class T>
class CarriedValue {
 public:
  /// Whether any thread, or any state on its way to one, has a value. False costs one load, and is what most calls see.
  static bool is_anywhere() {
    return T::carried_count.load(std::memory_order_relaxed) != 0;
  }
  /// This thread's value; nullptr where there is none. Valid until the thread sets another.
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
