#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/decompositions/reduced_dims.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace {

using torch::jit::Stack;

/// Whether the loss is a mean over elements of several ranks. The local operator would divide by the number of local
/// ones.
bool is_mean_over_ranks(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  return call.integer("reduction") == at::Reduction::Mean && any_is_sharded_or_partial(operands);
}

c10::IValue& argument(const c10::OperatorHandle& op, Stack& stack, std::string_view name) {
  const auto index = op.schema().argumentIndexWithName(name);
  TORCH_INTERNAL_ASSERT(index.has_value());
  return stack[stack.size() - op.schema().arguments().size() + *index];
}

/// The number of elementwise losses: input and target broadcast against each other.
int64_t term_count(const c10::OperatorHandle& op, Stack& stack) {
  const auto sizes =
      at::infer_size(argument(op, stack, "self").toTensor().sizes(), argument(op, stack, "target").toTensor().sizes());
  return c10::multiply_integers(sizes);
}

/// The sum, divided by the number of all elements.
void mean_as_sum(const c10::OperatorHandle& op, Stack* stack) {
  const auto count = term_count(op, *stack);
  argument(op, *stack, "reduction") = static_cast<int64_t>(at::Reduction::Sum);
  op.callBoxed(stack);
  stack->back() = stack->back().toTensor().div(count);
}

void mean_backward_as_sum(const c10::OperatorHandle& op, Stack* stack) {
  auto& gradient = argument(op, *stack, "grad_output");
  // ATen's own kernels divide by the number of elements of `self` too, even if it is broadcast.
  gradient = gradient.toTensor().div(argument(op, *stack, "self").toTensor().numel());
  argument(op, *stack, "reduction") = static_cast<int64_t>(at::Reduction::Sum);
  op.callBoxed(stack);
}

/// The number of rows of scores, each of which has a loss. A tensor without a batch dim is one row.
int64_t row_count(const c10::OperatorHandle& op, Stack& stack) {
  const auto scores = argument(op, stack, "self").toTensor();
  return scores.dim() < 2 ? 1 : scores.size(0);
}

void mean_of_rows_as_sum(const c10::OperatorHandle& op, Stack* stack) {
  const auto count = row_count(op, *stack);
  argument(op, *stack, "reduction") = static_cast<int64_t>(at::Reduction::Sum);
  op.callBoxed(stack);
  auto& loss = (*stack)[stack->size() - op.schema().returns().size()];
  loss = loss.toTensor().div(count);
}

void mean_of_rows_backward_as_sum(const c10::OperatorHandle& op, Stack* stack) {
  auto& gradient = argument(op, *stack, "grad_output");
  gradient = gradient.toTensor().div(row_count(op, *stack));
  argument(op, *stack, "reduction") = static_cast<int64_t>(at::Reduction::Sum);
  op.callBoxed(stack);
}

at::Tensor replicated(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  const auto& mesh = as_dtensor(tensor)->spec()->mesh();
  return move_implicitly(op.schema().name().c_str(), tensor, replicated(mesh));
}

/// The sum of weighted losses divided by the sum of weights. The latter is the second result, which backward needs.
void weighted_mean_as_sums(const c10::OperatorHandle& op, Stack* stack) {
  argument(op, *stack, "reduction") = static_cast<int64_t>(at::Reduction::Sum);
  op.callBoxed(stack);
  const auto weight = replicated(op, stack->back().toTensor());
  auto& sum = (*stack)[stack->size() - 2];
  sum = sum.toTensor().div(weight);
  stack->back() = weight;
}

} // namespace

void add_loss_decompositions(Decompositions& all) {
  using c10::KernelFunction;
  for (const auto* name :
       {"mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
        "soft_margin_loss"}) {
    all.emplace(
        std::string("aten::") + name,
        Decomposition{&is_mean_over_ranks, KernelFunction::makeFromBoxedFunction<&mean_as_sum>()});
  }
  for (const auto* name : {"mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss"}) {
    all.emplace(
        std::string("aten::") + name + "_backward",
        Decomposition{&is_mean_over_ranks, KernelFunction::makeFromBoxedFunction<&mean_backward_as_sum>()});
  }
  for (const auto* name : {"aten::multi_margin_loss", "aten::multilabel_margin_loss_forward"}) {
    all.emplace(
        name, Decomposition{&is_mean_over_ranks, KernelFunction::makeFromBoxedFunction<&mean_of_rows_as_sum>()});
  }
  for (const auto* name : {"aten::multi_margin_loss_backward", "aten::multilabel_margin_loss_backward"}) {
    all.emplace(
        name,
        Decomposition{&is_mean_over_ranks, KernelFunction::makeFromBoxedFunction<&mean_of_rows_backward_as_sum>()});
  }
  for (const auto* name : {"aten::nll_loss_forward", "aten::nll_loss2d_forward"}) {
    all.emplace(
        name, Decomposition{&is_mean_over_ranks, KernelFunction::makeFromBoxedFunction<&weighted_mean_as_sums>()});
  }
}

} // namespace weft
