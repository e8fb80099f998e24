#include "weft/tensor/kernels/kernels.h"

#include "weft/core/layout_algebra.h"
#include "weft/overlap/matrix_gradient.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/kernels/scattered_matmul.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace weft {

namespace {

/// The factor by which a gradient is multiplied: the conjugate for complex tensors. Real tensors cost no dispatch.
at::Tensor conjugate(const at::Tensor& tensor) {
  return tensor.is_complex() ? tensor.conj() : tensor;
}

using ThreeGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The distributed gradient of `tensor` on a mesh of one rank, where all layouts give the same local tensor: it takes the
/// tensor's.
at::Tensor gradient_of(const at::Tensor& tensor, const at::Tensor& local) {
  if (!local.defined()) {
    return {};
  }
  const auto& impl = *as_dtensor(tensor);
  const auto& spec = *impl.spec();
  const bool is_alike = spec.is_contiguous() && local.is_contiguous() && spec.dtype() == local.scalar_type() &&
      !spec.layout().has_partial();
  if (C10_LIKELY(is_alike)) {
    auto gradient = at::detail::make_tensor<DTensorImpl>(impl, AsyncTensor(local), local.device());
    return is_traced(local) ? show_to_tracer(std::move(gradient)) : gradient;
  }
  const auto layout = without_partial(spec.layout());
  return make_dtensor(local.contiguous(), TensorSpec::make(spec.mesh(), layout, spec.sizes(), local.scalar_type()));
}

/// Whether the gradients may be computed from the local tensors alone: on a mesh of one rank, unless an observer wants to
/// know of every operator.
bool is_local(const at::Tensor& input, const at::Tensor& grad_output, const at::Tensor& weight) {
  return is_dtensor(input) && is_dtensor(grad_output) && is_dtensor(weight) && mesh_of(weight).size() == 1 &&
      mesh_of(input) == mesh_of(weight) && mesh_of(grad_output) == mesh_of(weight) && !Scopes::of_thread().any() &&
      !is_watched();
}

/// Gradients of linear(input, weight, bias) by operators that have rules, because torch has no dense kernel for them. Of
/// distributed or of plain tensors.
ThreeGradients linear_gradients(
    const at::Tensor& input,
    const at::Tensor& grad_output,
    const at::Tensor& weight,
    std::array<bool, 3> wanted) {
  at::Tensor grad_input;
  at::Tensor grad_weight;
  at::Tensor grad_bias;
  // As matrices: a vector of inputs is one row, a vector of weights gives one column.
  const auto matrix = conjugate(weight.dim() == 1 ? weight.unsqueeze(0) : weight);
  const auto outputs = weight.dim() == 1 ? grad_output.unsqueeze(-1) : grad_output;
  const auto rows = as_rows(outputs);
  if (wanted[0]) {
    grad_input = is_dtensor(outputs) ? scattered_matmul(outputs, matrix, input) : at::Tensor();
    grad_input = grad_input.defined() ? grad_input : at::matmul(outputs, matrix);
  }
  if (wanted[1]) {
    grad_weight = at::mm(rows.t(), conjugate(as_rows(input))).reshape(weight.sizes());
  }
  if (wanted[2]) {
    grad_bias = rows.sum(0);
  }
  return {grad_input, grad_weight, grad_bias};
}

ThreeGradients linear_backward(
    const at::Tensor& input,
    const at::Tensor& grad_output,
    const at::Tensor& weight,
    std::array<bool, 3> wanted) {
  if (!is_local(input, grad_output, weight)) {
    return linear_gradients(input, grad_output, weight, wanted);
  }
  const auto local = [](const at::Tensor& tensor) { return checked_values("linear_backward", tensor).local(); };
  const auto [of_input, of_weight, of_bias] = linear_gradients(local(input), local(grad_output), local(weight), wanted);
  const auto& mesh = mesh_of(weight);
  return {
      gradient_of(input, of_input), gradient_of(weight, of_weight),
      of_bias.defined() ? from_local(of_bias, mesh, replicated(mesh)) : at::Tensor()};
}

at::Tensor reduced_to(at::Tensor gradient, c10::IntArrayRef sizes) {
  return gradient.sizes() == sizes ? gradient : at::sum_to(gradient, sizes);
}

std::tuple<at::Tensor, at::Tensor> matmul_backward(
    const at::Tensor& grad,
    const at::Tensor& a,
    const at::Tensor& b,
    std::array<bool, 2> wanted) {
  at::Tensor grad_a;
  at::Tensor grad_b;
  // As matrices: a row on the left, a column on the right.
  const auto left = conjugate(a.dim() == 1 ? a.unsqueeze(0) : a);
  const auto right = conjugate(b.dim() == 1 ? b.unsqueeze(1) : b);
  auto outer = a.dim() == 1 ? grad.unsqueeze(-1 - (b.dim() == 1 ? 0 : 1)) : grad;
  outer = b.dim() == 1 ? outer.unsqueeze(-1) : outer;
  if (wanted[0]) {
    grad_a = scattered_matmul(outer, right.transpose(-2, -1), left);
    if (!grad_a.defined()) {
      grad_a = reduced_to(at::matmul(outer, right.transpose(-2, -1)), left.sizes()).reshape(a.sizes());
    }
  }
  if (wanted[1]) {
    grad_b = right.dim() == 2 ? matrix_gradient(left, outer, right)
                              : reduced_to(at::matmul(left.transpose(-2, -1), outer), right.sizes());
    grad_b = b.dim() == 1 ? grad_b.reshape(b.sizes()) : grad_b;
  }
  return {grad_a, grad_b};
}

} // namespace

void register_linear_backward(torch::Library& library) {
  library.impl("linear_backward", TORCH_FN(linear_backward));
  library.impl("matmul_backward", TORCH_FN(matmul_backward));
}

} // namespace weft
