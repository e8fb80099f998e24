#pragma once

#include "weft/nn/tensors_in.h"

namespace weft::nn {

/// What happens before a module's forward and after it.
class AroundForward {
 public:
  virtual ~AroundForward() = default;
  virtual void enter(c10::ArrayRef<at::Tensor> inputs) = 0;
  /// `outputs` are those that are known (see add_tensors).
  virtual void leave(c10::ArrayRef<at::Tensor> outputs, bool has_failed) = 0;
};

template <class... Ts>
std::vector<at::Tensor> tensors_in(const Ts&... values) {
  std::vector<at::Tensor> tensors;
  (add_tensors(values, tensors), ...);
  return tensors;
}

/// Calls `forward` between enter() and leave().
template <class Forward>
auto call_within(AroundForward& around, const std::vector<at::Tensor>& inputs, const Forward& forward) {
  around.enter(inputs);
  auto output = [&] {
    try {
      return forward();
    } catch (...) {
      around.leave({}, /*has_failed=*/true);
      throw;
    }
  }();
  around.leave(tensors_in(output), /*has_failed=*/false);
  return output;
}

} // namespace weft::nn
