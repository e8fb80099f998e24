#include "weft/tensor/gradients/gradient_layout.h"

#include "weft/comm/comm_log.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/gradients/gradient_buckets.h"
#include "weft/tensor/impl/in_backward.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace weft {

namespace {

namespace autograd = torch::autograd;
using autograd::variable_list;

/// Some derivative formulas give a plain tensor of zeros, made of the shape alone: the same on every rank. It may be one
/// that has no memory.
at::Tensor replicated_constant(const at::Tensor& gradient, const DeviceMesh& mesh) {
  const auto local = gradient._is_zerotensor() ? at::zeros(gradient.sizes(), gradient.options()) : gradient;
  return from_local(local, mesh, replicated(mesh));
}

/// Brings the gradient of a leaf, which owns it, to the leaf's layout.
class GradientLayoutHook : public autograd::FunctionPreHook {
 public:
  explicit GradientLayoutHook(const at::Tensor& leaf) : leaf_(leaf.unsafeGetTensorImpl()) {}

  variable_list operator()(const variable_list& gradients) override {
    const at::Tensor leaf(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(leaf_));
    // Derivative formulas may give none.
    if (!gradients[0].defined() || !is_dtensor(leaf)) {
      return gradients;
    }
    const OperatorScope scope("gradient");
    const auto& spec = *as_dtensor(leaf)->spec();
    const auto layout = without_partial(spec.layout());
    const auto& gradient = gradients[0];
    const auto whole = is_dtensor(gradient) ? gradient : replicated_constant(gradient, spec.mesh());
    if (as_dtensor(whole)->spec()->layout() == layout) {
      return {whole};
    }
    if (auto accumulator = next_reader(leaf); accumulator && reduce_in_bucket(whole, layout, std::move(accumulator))) {
      return {at::Tensor()}; // nothing is accumulated yet
    }
    return {redistribute(whole, layout)};
  }

 private:
  /// The node that accumulates this gradient, if it is the only one that reads it.
  GradAccumulator next_reader(const at::Tensor& leaf) const {
    const auto hooks_end_here =
        !autograd::impl::hooks(leaf).empty() && autograd::impl::hooks(leaf).back().get() == this;
    if (!in_backward() || at::GradMode::is_enabled() || !hooks_end_here) {
      return {};
    }
    auto accumulator = autograd::impl::try_get_grad_accumulator(leaf);
    // Hooks behind the accumulation are to find its result, and some are there to free it before the others come.
    if (!accumulator || !accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty() ||
        accumulator->tensor_post_acc_grad_hooks()) {
      return {};
    }
    // Whoever asks for certain gradients names their nodes; those that are returned to the caller are not run.
    const auto* asked = autograd::get_current_graph_task_exec_info();
    const auto found = asked->find(accumulator.get());
    const bool is_run = asked->empty() || (found != asked->end() && found->second.needed_);
    return is_run ? accumulator : GradAccumulator();
  }

  /// The leaf owns this hook, and the node that runs it holds the leaf. A weak pointer would make torch.utils.swap_tensors
  /// refuse the leaf.
  c10::TensorImpl* leaf_;
};

} // namespace

void keep_gradient_layout(const at::Tensor& leaf) {
  auto& hooks = autograd::impl::hooks(leaf);
  const bool is_there = std::any_of(hooks.begin(), hooks.end(), [](const auto& hook) {
    return dynamic_cast<const GradientLayoutHook*>(hook.get()) != nullptr;
  });
  if (is_there) {
    return;
  }
  if (hooks.empty()) {
    // The first hook that C++ registers removes all that are there; later ones join it.
    autograd::impl::create_cpp_hook(leaf);
  }
  hooks.push_back(std::make_unique<GradientLayoutHook>(leaf));
}

} // namespace weft
