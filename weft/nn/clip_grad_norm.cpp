#include "weft/nn/clip_grad_norm.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>

namespace weft::nn {

namespace {

using Tensors = std::vector<at::Tensor>;

Tensors gradients_of(at::TensorList parameters) {
  Tensors gradients;
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) {
      gradients.push_back(parameter.grad());
    }
  }
  return gradients;
}

/// The gradients by mesh, or by device if they are plain.
std::vector<Tensors> grouped(const Tensors& gradients) {
  const auto belong_together = [](const at::Tensor& a, const at::Tensor& b) {
    return a.device() == b.device() && is_dtensor(a) == is_dtensor(b) && (!is_dtensor(a) || mesh_of(a) == mesh_of(b));
  };
  std::vector<Tensors> groups;
  for (const auto& gradient : gradients) {
    const auto group = std::find_if(
        groups.begin(), groups.end(), [&](const Tensors& members) { return belong_together(members[0], gradient); });
    (group == groups.end() ? groups.emplace_back() : *group).push_back(gradient);
  }
  return groups;
}

/// The number as a plain tensor on the device of `other`, so that operators accept it together with `other`.
at::Tensor on_device_of(const at::Tensor& number, const at::Tensor& other) {
  const auto plain = is_dtensor(number) ? as_dtensor(number)->local() : number;
  return plain.to(other.device());
}

} // namespace

at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
  const c10::NoGradGuard no_grad;
  const StrictScope communicates_as_asked(false);
  const auto gradients = gradients_of(parameters);
  if (gradients.empty()) {
    return at::zeros({});
  }
  const auto groups = grouped(gradients);
  Tensors norms;
  for (const auto& group : groups) {
    for (const auto& norm : at::_foreach_norm(group, norm_type)) {
      norms.push_back(on_device_of(norm, gradients[0]));
    }
  }
  const auto total = at::linalg_vector_norm(at::stack(norms), norm_type);
  TORCH_CHECK(
      !error_if_nonfinite || std::isfinite(total.item<double>()), "[clip_grad_norm_] the norm of order ", norm_type,
      " must be finite, but got ", total.item<double>(),
      ". Look for the parameter whose gradient is not, or pass error_if_nonfinite=false to scale by it all the same.");
  const auto scale = (max_norm / (total + 1e-6)).clamp_max(1.0);
  for (const auto& group : groups) {
    at::_foreach_mul_(group, on_device_of(scale, group[0]));
  }
  const auto distributed =
      std::find_if(gradients.begin(), gradients.end(), [](const at::Tensor& each) { return is_dtensor(each); });
  if (distributed == gradients.end()) {
    return total;
  }
  const auto& mesh = mesh_of(*distributed);
  return from_local(total, mesh, replicated(mesh));
}

} // namespace weft::nn
