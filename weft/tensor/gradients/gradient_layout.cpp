#include "weft/tensor/gradients/gradient_layout.h"

#include "weft/comm/comm_log.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/in_backward.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>
#include <typeinfo>

namespace weft {

namespace {

namespace autograd = torch::autograd;
using autograd::variable_list;

/// Distributes a plain gradient. Some derivative formulas return a plain tensor of zeros, made from the shape alone and
/// so the same on every rank. It may be a zero tensor of torch that has no memory.
at::Tensor replicated_constant(const at::Tensor& gradient, const DeviceMesh& mesh) {
  const auto local = gradient._is_zerotensor() ? at::zeros(gradient.sizes(), gradient.options()) : gradient;
  return from_local(local, mesh, replicated(mesh));
}

/// The node that accumulates the gradient of a leaf in this pass, if nothing else reads it.
GradAccumulator only_reader(const at::Tensor& leaf) {
  if (!in_backward() || at::GradMode::is_enabled()) {
    return {};
  }
  auto accumulator = autograd::impl::try_get_grad_accumulator(leaf);
  // Hooks that run after the accumulation must find its result, and some of them free it before the next gradient
  // comes.
  if (!accumulator || !accumulator->pre_hooks().empty() || !accumulator->post_hooks().empty() ||
      accumulator->tensor_post_acc_grad_hooks()) {
    return {};
  }
  // A caller that asks for certain gradients (torch::autograd::grad, or backward with inputs) names their nodes. The
  // nodes of gradients that are returned to the caller do not run.
  const auto* asked = autograd::get_current_graph_task_exec_info();
  const auto found = asked->find(accumulator.get());
  const bool is_run = asked->empty() || (found != asked->end() && found->second.needed_);
  return is_run ? accumulator : GradAccumulator();
}

/// Redistributes the gradient of a leaf to the leaf's layout; that of a plain leaf becomes plain. The leaf owns this hook.
class GradientLayoutHook : public autograd::FunctionPreHook {
 public:
  explicit GradientLayoutHook(const at::Tensor& leaf) : leaf_(leaf.unsafeGetTensorImpl()) {}

  variable_list operator()(const variable_list& gradients) override {
    const at::Tensor leaf(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(leaf_));
    // Derivative formulas may return an undefined gradient. A transform takes its values as they are.
    if (!gradients[0].defined() || is_inside_transform(gradients[0])) {
      return gradients;
    }
    if (!is_dtensor(leaf)) {
      return plain_gradient(leaf, gradients);
    }
    const auto& spec = *as_dtensor(leaf)->spec();
    if (is_dtensor(gradients[0]) && as_dtensor(gradients[0])->spec().get() == &spec && !spec.layout().has_partial()) {
      return gradients;
    }
    const OperatorScope scope("gradient");
    const auto gradient = is_dtensor(gradients[0]) ? gradients[0] : replicated_constant(gradients[0], spec.mesh());
    const auto layout = gradient_layout(spec.layout(), as_dtensor(gradient)->spec()->layout());
    if (as_dtensor(gradient)->spec()->layout() == layout) {
      return {gradient};
    }
    return {goes_into_bucket(leaf, gradient, layout) ? at::Tensor() : redistribute(gradient, layout)};
  }

 private:
  variable_list plain_gradient(const at::Tensor& leaf, const variable_list& gradients) const {
    if (!is_dtensor(gradients[0])) {
      return gradients;
    }
    const OperatorScope scope("gradient");
    const auto layout = replicated(as_dtensor(gradients[0])->spec()->mesh());
    return {goes_into_bucket(leaf, gradients[0], layout) ? at::Tensor() : full_tensor(gradients[0])};
  }

  /// Whether a bucket has taken the gradient and accumulates it later.
  bool goes_into_bucket(const at::Tensor& leaf, const at::Tensor& gradient, const Layout& layout) const {
    auto accumulator = next_reader(leaf);
    return accumulator && reduce_in_bucket(gradient, layout, std::move(accumulator));
  }

  /// The node that accumulates this gradient, if it is the only one that reads it.
  GradAccumulator next_reader(const at::Tensor& leaf) const {
    const auto hooks_end_here =
        !autograd::impl::hooks(leaf).empty() && autograd::impl::hooks(leaf).back().get() == this;
    return hooks_end_here ? only_reader(leaf) : GradAccumulator();
  }

  /// The leaf owns this hook, and the node that runs it holds the leaf. A weak pointer would make
  /// torch.utils.swap_tensors refuse the leaf.
  c10::TensorImpl* leaf_;
};

/// Makes the gradient of a plain result of an operator plain. The operator's node owns this hook.
class PlainGradientHook : public autograd::FunctionPreHook {
 public:
  explicit PlainGradientHook(uint32_t output) : output_(output) {}

  uint32_t output() const {
    return output_;
  }

  variable_list operator()(const variable_list& gradients) override {
    auto result = gradients;
    auto& gradient = result[output_];
    if (gradient.defined() && is_dtensor(gradient) && !is_inside_transform(gradient)) {
      const OperatorScope scope("gradient");
      gradient = full_tensor(gradient);
    }
    return result;
  }

 private:
  uint32_t output_;
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
    // The first hook that a user registers from C++ calls create_cpp_hook, which removes all hooks of the leaf. Calling
    // it here, while there are none, makes later hooks join its list.
    autograd::impl::create_cpp_hook(leaf);
  }
  hooks.push_back(std::make_unique<GradientLayoutHook>(leaf));
}

GradAccumulator accumulator_for_later(const at::Tensor& leaf) {
  const auto* meta = autograd::impl::get_autograd_meta(leaf);
  const bool users_see_none =
      meta != nullptr && std::all_of(meta->hooks_.begin(), meta->hooks_.end(), [&](const auto& hook) {
        const auto& ref = *hook;
        // keep_gradient_layout() makes a hook for a list of hooks from C++, which may be empty. Its type is not exported.
        const bool is_list = std::string_view(typeid(ref).name()).find("CppFunctionTensorPreHook") != std::string::npos;
        return dynamic_cast<const GradientLayoutHook*>(hook.get()) != nullptr ||
            (is_list && meta->cpp_hooks_list_ != nullptr && meta->cpp_hooks_list_->empty());
      });
  return users_see_none ? only_reader(leaf) : GradAccumulator();
}

void accumulate_later(const at::Tensor& leaf, at::Tensor gradient, GradAccumulator accumulator) {
  const auto& before = as_dtensor(gradient)->spec()->layout();
  const auto layout = gradient_layout(as_dtensor(leaf)->spec()->layout(), before);
  if (before != layout) {
    if (reduce_in_bucket(gradient, layout, accumulator)) {
      return;
    }
    gradient = redistribute(gradient, layout);
  }
  variable_list gradients;
  gradients.push_back(std::move(gradient)); // the only reference, so that the node need not copy it
  (*accumulator)(std::move(gradients));
}

void keep_gradient_plain(const at::Tensor& plain) {
  if (!plain.requires_grad() || !at::GradMode::is_enabled()) {
    return;
  }
  if (plain.is_leaf()) {
    keep_gradient_layout(plain);
    return;
  }
  const auto& node = plain.grad_fn();
  const auto output = plain.output_nr();
  const auto& hooks = node->tensor_pre_hooks();
  const bool is_there = std::any_of(hooks.begin(), hooks.end(), [&](const auto& hook) {
    const auto* known = dynamic_cast<const PlainGradientHook*>(hook.get());
    return known != nullptr && known->output() == output;
  });
  if (!is_there) {
    node->add_tensor_pre_hook(std::make_unique<PlainGradientHook>(output));
  }
}

} // namespace weft
