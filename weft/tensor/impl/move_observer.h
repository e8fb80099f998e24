#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace weft {

/// Who records what this thread does while it lasts, and is told of what is no operator: redistributions, and the ways
/// between plain and distributed tensors. What they do inside is then left to it. Nothing else is done behind its back
/// either: gradients are not gathered in buckets, and what was moved before is moved again.
class MoveObserver {
 public:
  static MoveObserver* of_thread();
  MoveObserver(const MoveObserver&) = delete;
  MoveObserver& operator=(const MoveObserver&) = delete;

  /// Whether what is done now is recorded by itself: not where it is part of an operator.
  virtual bool is_watching() const = 0;
  /// Runs `move`, which makes its result of the tensor, and gives that.
  virtual at::Tensor observe(const at::Tensor& tensor, c10::function_ref<at::Tensor()> move) = 0;

 protected:
  MoveObserver();
  ~MoveObserver();

 private:
  MoveObserver* outer_;
};

/// Whether operators on whole tensors are to be used, since no one could say what is done with parts of them.
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
