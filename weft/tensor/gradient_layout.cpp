#include "weft/tensor/gradient_layout.h"

#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary.h"
#include "weft/tensor/from_local.h"
#include "weft/tensor/redistribute.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace weft {

namespace {

/// Some derivative formulas give a plain tensor of zeros, made of the shape alone: the same on every rank. It may be one
/// that has no memory.
at::Tensor replicated_constant(const at::Tensor& gradient, const DeviceMesh& mesh) {
  const auto local = gradient._is_zerotensor() ? at::zeros(gradient.sizes(), gradient.options()) : gradient;
  return from_local(local, mesh, all_replicated(mesh));
}

class GradientLayoutHook : public torch::autograd::FunctionPreHook {
 public:
  GradientLayoutHook(DeviceMesh mesh, Layout layout) : mesh_(std::move(mesh)), layout_(std::move(layout)) {}

  /// Derivative formulas may give none.
  at::Tensor laid_out(const at::Tensor& gradient) const {
    if (!gradient.defined()) {
      return gradient;
    }
    const OperatorScope scope("gradient");
    const auto whole = is_dtensor(gradient) ? gradient : replicated_constant(gradient, mesh_);
    return as_dtensor(whole)->spec()->layout() == layout_ ? whole : redistribute(whole, layout_);
  }

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    auto result = gradients;
    result[0] = laid_out(result[0]);
    return result;
  }

 private:
  DeviceMesh mesh_;
  Layout layout_;
};

} // namespace

void keep_gradient_layout(const at::Tensor& leaf) {
  const auto& spec = *as_dtensor(leaf)->spec();
  GradientLayoutHook hook(spec.mesh(), default_gradient_layout(spec.layout()));
  // The first hook that C++ registers removes those of Python; one that stands behind them does not.
  if (auto& hooks = torch::autograd::impl::hooks(leaf); !hooks.empty()) {
    hooks.push_back(std::make_unique<GradientLayoutHook>(std::move(hook)));
  } else {
    leaf.register_hook([hook = std::move(hook)](const at::Tensor& gradient) { return hook.laid_out(gradient); });
  }
}

} // namespace weft
