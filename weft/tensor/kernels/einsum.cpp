#include "weft/tensor/kernels/kernels.h"

#include "weft/rules/equation.h"
#include "weft/tensor/impl/autograd_alias.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/einsum_compositeimplicitautograd_dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gradient of one operand: the equation in which it and the output change places.
std::string gradient_equation(const Equation& equation, size_t operand) {
  std::string text = equation.output;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    text += i == operand ? "" : "," + equation.inputs[i];
  }
  return text + "->" + equation.inputs[operand];
}

struct EinsumByRule : torch::autograd::Function<EinsumByRule> {
  static at::Tensor forward(AutogradContext* context, const std::string& equation, at::TensorList tensors) {
    const at::AutoDispatchBelowADInplaceOrView by_rule;
    context->saved_data["equation"] = equation;
    context->save_for_backward(tensors.vec());
    return at::einsum(equation, tensors);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto equation = *parse_equation(context->saved_data["equation"].toStringRef());
    const auto tensors = context->get_saved_variables();
    variable_list results = {at::Tensor()};
    for (size_t i = 0; i < tensors.size(); ++i) {
      std::vector<at::Tensor> others = {gradients[0]};
      for (size_t k = 0; k < tensors.size(); ++k) {
        if (k != i) {
          others.push_back(tensors[k].conj());
        }
      }
      results.push_back(
          context->needs_input_grad(i) ? at::einsum(gradient_equation(equation, i), others) : at::Tensor());
    }
    return results;
  }
};

/// Whether every letter has the same size in all operands. A size of 1 would broadcast, which the rule does not know.
bool sizes_agree(const Equation& equation, at::TensorList tensors) {
  std::vector<c10::IntArrayRef> sizes;
  for (const auto& tensor : tensors) {
    sizes.push_back(tensor.sizes());
  }
  return equation.fits(sizes);
}

/// Torch accepts operands of two dtypes if no letter is summed by a matmul, and refuses them otherwise. The equations
/// of the gradients sum other letters than the forward, so that they could be refused although the forward was not.
bool dtypes_agree(at::TensorList tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
    return tensor.scalar_type() == tensors[0].scalar_type();
  });
}

/// Autocast acts on the matmuls that ATen decomposes an equation into, not on einsum itself.
bool is_cast(at::TensorList tensors) {
  const auto device = tensors[0].device().type();
  return device != at::kMeta && at::autocast::is_autocast_enabled(device);
}

/// The derivative here is not one of forward mode AD; ATen decomposes the equation into operators that have both.
bool have_tangent(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return has_tangent(tensor); });
}

at::Tensor einsum(c10::string_view equation, at::TensorList tensors, at::OptionalIntArrayRef path) {
  const auto parsed = parse_equation(equation);
  if (parsed && !is_cast(tensors) && !have_tangent(tensors) && parsed->is_contraction() &&
      sizes_agree(*parsed, tensors) && dtypes_agree(tensors)) {
    return EinsumByRule::apply(std::string(equation), tensors);
  }
  return at::compositeimplicitautograd::einsum(equation, tensors, path);
}

} // namespace

void register_einsum(torch::Library& autograd) {
  autograd.impl("einsum", TORCH_FN(einsum));
}

} // namespace weft
