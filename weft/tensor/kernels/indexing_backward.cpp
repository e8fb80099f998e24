#include "weft/tensor/impl/derivative_of_torch.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/gather_backward_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/index_select_backward_compositeimplicitautograd_dispatch.h>

namespace weft {

namespace {

/// Whether several ranks share a tensor along a dim for which `is_kept(tensor_dim)`.
template <class IsKept>
bool has_shards(const at::Tensor& tensor, const IsKept& is_kept) {
  const auto* impl = as_dtensor(tensor);
  if (impl == nullptr) {
    return false;
  }
  const auto& spec = *impl->spec();
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    const auto& placement = spec.layout()[m];
    if (placement.is_shard() && spec.mesh().size(m) > 1 && is_kept(placement.dim())) {
      return true;
    }
  }
  return false;
}

bool keeps_shards(const at::Tensor& gradient, int64_t indexed) {
  if (gradient.dim() == 0) {
    return false;
  }
  const auto dim = at::maybe_wrap_dim(indexed, gradient.dim());
  return has_shards(gradient, [&](int64_t kept) { return kept != dim; });
}

at::Tensor index_select_backward(
    const at::Tensor& gradient,
    c10::SymIntArrayRef sizes,
    int64_t dim,
    const at::Tensor& index) {
  return keeps_shards(gradient, dim)
      ? gradient.new_zeros_symint(sizes).index_add(dim, index, gradient)
      : at::compositeimplicitautograd::index_select_backward_symint(gradient, sizes, dim, index);
}

at::Tensor gather_backward(
    const at::Tensor& gradient,
    const at::Tensor& self,
    int64_t dim,
    const at::Tensor& index,
    bool sparse_grad) {
  return !sparse_grad && keeps_shards(gradient, dim)
      ? gradient.new_zeros(self.sizes()).scatter_add(dim, index, gradient)
      : at::compositeimplicitautograd::gather_backward(gradient, self, dim, index, sparse_grad);
}

using Indices = c10::List<std::optional<at::Tensor>>;

/// The indices without undefined tensors, which _unsafe_index does not take for a dim that is not indexed.
Indices defined(const Indices& indices) {
  Indices result;
  for (const std::optional<at::Tensor> each : indices) {
    result.push_back(each && each->defined() ? each : std::nullopt);
  }
  return result;
}

/// Whether ranks share a dim of the tensor that is not indexed. A mask indexes a number of dims of its own.
bool keeps_shards(const at::Tensor& self, const Indices& indices) {
  std::vector<bool> is_indexed(self.dim());
  for (size_t dim = 0; dim < indices.size() && dim < is_indexed.size(); ++dim) {
    const std::optional<at::Tensor> each = indices.get(dim);
    is_indexed[dim] = each && each->defined();
    if (is_indexed[dim] && (each->scalar_type() == at::kBool || each->scalar_type() == at::kByte)) {
      return false;
    }
  }
  return has_shards(self, [&](int64_t dim) { return !is_indexed[dim]; });
}

at::Tensor index(c10::DispatchKeySet keys, const at::Tensor& self, const Indices& indices) {
  return keeps_shards(self, indices) ? at::_unsafe_index(self, defined(indices))
                                     : at::_ops::index_Tensor::redispatch(to_derivative_of_torch(keys), self, indices);
}

} // namespace

void register_indexing_backward(torch::Library& library) {
  library.impl("index_select_backward", TORCH_FN(index_select_backward));
  library.impl("gather_backward", TORCH_FN(gather_backward));
}

void register_index(torch::Library& autograd) {
  autograd.impl("index.Tensor", TORCH_FN(index));
}

} // namespace weft
