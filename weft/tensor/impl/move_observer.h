#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace weft {

/// A recorder of this thread's operators (graph capture) that is also told of functions which are no operators:
/// redistribute, to_local and from_local. It decides how they run. While it exists, gradients are not reduced in
/// buckets and redistribute_once reuses no earlier result, because the recorder would not see these.
class MoveObserver {
 public:
  static MoveObserver* of_thread();
  MoveObserver(const MoveObserver&) = delete;
  MoveObserver& operator=(const MoveObserver&) = delete;

  /// Whether a call made now is recorded: false while the thread runs inside of an operator, which is recorded as one.
  virtual bool is_watching() const = 0;
  /// Runs `move`, which computes its result from `tensor`, and returns the result.
  virtual at::Tensor observe(const at::Tensor& tensor, c10::function_ref<at::Tensor()> move) = 0;

 protected:
  MoveObserver();
  ~MoveObserver();

 private:
  MoveObserver* outer_;
};

/// Whether kernels must use operators on distributed tensors only, because an observer cannot record operators on the
/// local tensors.
inline bool is_watched() {
  const auto* observer = MoveObserver::of_thread();
  return C10_UNLIKELY(observer != nullptr) && observer->is_watching();
}

template <class Move>
at::Tensor observed(const at::Tensor& tensor, const Move& move) {
  auto* observer = MoveObserver::of_thread();
  return C10_LIKELY(observer == nullptr) ? move() : observer->observe(tensor, move);
}

} // namespace weft
