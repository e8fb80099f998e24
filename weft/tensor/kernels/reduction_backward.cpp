#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/decompositions/reduced_dims.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/derivative_of_torch.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>

namespace weft {

namespace {

/// Reduces gradients of a reduction's results, where they are partial, over the mesh dims that shard what it reduces.
class ReduceGradient final : public torch::autograd::FunctionPreHook {
 public:
  explicit ReduceGradient(MeshDims mesh_dims) : mesh_dims_(std::move(mesh_dims)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    auto results = gradients;
    for (auto& gradient : results) {
      if (const auto* impl = as_dtensor(gradient)) {
        const auto& layout = impl->spec()->layout();
        const auto is_taken = [&](int64_t m) {
          return layout[m].is_partial() && std::find(mesh_dims_.begin(), mesh_dims_.end(), m) != mesh_dims_.end();
        };
        gradient = redistribute(gradient, replicated_where(layout, is_taken));
      }
    }
    return results;
  }

 private:
  MeshDims mesh_dims_;
};

MeshDims mesh_dims_that_shard(const at::Tensor& tensor, at::OptionalIntArrayRef dims) {
  MeshDims result;
  const auto& spec = *as_dtensor(tensor)->spec();
  const auto reduced = wrapped_dims(dims, tensor.dim());
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    const auto& placement = spec.layout()[m];
    if (placement.is_shard() && spec.mesh().size(m) > 1 &&
        std::find(reduced.begin(), reduced.end(), placement.dim()) != reduced.end()) {
      result.push_back(m);
    }
  }
  return result;
}

void reduce_gradient_first(const at::Tensor& self, at::OptionalIntArrayRef dims, const at::Tensor& result) {
  if (!is_recorded(self) || !result.grad_fn()) {
    return;
  }
  if (auto mesh_dims = mesh_dims_that_shard(self, dims); !mesh_dims.empty()) {
    result.grad_fn()->add_pre_hook(std::make_unique<ReduceGradient>(std::move(mesh_dims)));
  }
}

using Keys = c10::DispatchKeySet;
using Dtype = std::optional<at::ScalarType>;
using Correction = std::optional<at::Scalar>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;

at::Tensor sum(Keys keys, const at::Tensor& self, Dtype dtype) {
  auto result = at::_ops::sum::redispatch(to_common_derivative_of_torch(keys), self, dtype);
  reduce_gradient_first(self, std::nullopt, result);
  return result;
}

at::Tensor mean(Keys keys, const at::Tensor& self, Dtype dtype) {
  auto result = at::_ops::mean::redispatch(to_common_derivative_of_torch(keys), self, dtype);
  reduce_gradient_first(self, std::nullopt, result);
  return result;
}

at::Tensor sum_along(Keys keys, const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, Dtype dtype) {
  auto result = at::_ops::sum_dim_IntList::redispatch(to_common_derivative_of_torch(keys), self, dim, keepdim, dtype);
  reduce_gradient_first(self, dim, result);
  return result;
}

at::Tensor mean_along(Keys keys, const at::Tensor& self, at::OptionalIntArrayRef dim, bool keepdim, Dtype dtype) {
  auto result = at::_ops::mean_dim::redispatch(to_common_derivative_of_torch(keys), self, dim, keepdim, dtype);
  reduce_gradient_first(self, dim, result);
  return result;
}

template <class Op>
TwoTensors with_mean(
    Keys keys,
    const at::Tensor& self,
    at::OptionalIntArrayRef dim,
    const Correction& correction,
    bool keepdim) {
  auto results = Op::redispatch(to_common_derivative_of_torch(keys), self, dim, correction, keepdim);
  reduce_gradient_first(self, dim, std::get<0>(results));
  return results;
}

} // namespace

void register_reduction_backward(torch::Library& autograd) {
  autograd.impl("sum", TORCH_FN(sum));
  autograd.impl("mean", TORCH_FN(mean));
  autograd.impl("sum.dim_IntList", TORCH_FN(sum_along));
  autograd.impl("mean.dim", TORCH_FN(mean_along));
  autograd.impl("var_mean.correction", TORCH_FN(with_mean<at::_ops::var_mean_correction>));
  autograd.impl("std_mean.correction", TORCH_FN(with_mean<at::_ops::std_mean_correction>));
}

} // namespace weft
