#include "weft/tensor/decompositions/reduced_dims.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <numeric>

namespace weft {

bool any_is_sharded_or_partial(c10::ArrayRef<SpecPtr> operands) {
  return std::any_of(
      operands.begin(), operands.end(), [](const SpecPtr& spec) { return !is_replicated(spec->layout()); });
}

bool shards_reduced_dims(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  const auto dims = call.reduced_dims("dim", call.operand(0).dim());
  const auto placements = operands[0]->placements();
  return std::any_of(placements.begin(), placements.end(), [&](const Placement& placement) {
    return placement.is_shard() && std::find(dims.begin(), dims.end(), placement.dim()) != dims.end();
  });
}

bool shards_reduced_dims_or_is_partial(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  return operands[0]->layout().has_partial() || shards_reduced_dims(call, operands);
}

std::vector<int64_t> wrapped_dims(at::OptionalIntArrayRef dims, int64_t ndim) {
  std::vector<int64_t> wrapped;
  if (!dims || dims->empty()) {
    wrapped.resize(ndim);
    std::iota(wrapped.begin(), wrapped.end(), int64_t{0});
    return wrapped;
  }
  for (const auto dim : *dims) {
    wrapped.push_back(c10::maybe_wrap_dim(dim, ndim));
  }
  return wrapped;
}

at::ScalarType accumulation_dtype(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 ? at::kFloat : dtype;
}

at::Tensor reduced_where_sharded(const char* op, const at::Tensor& sums, const at::Tensor& input) {
  const auto& layout = as_dtensor(sums)->spec()->layout();
  const auto& input_layout = as_dtensor(input)->spec()->layout();
  const auto is_taken = [&](int64_t m) { return input_layout[m].is_shard() && layout[m].is_partial(); };
  return move_implicitly(op, sums, replicated_where(layout, is_taken));
}

int64_t reduced_count(const at::Tensor& tensor, c10::IntArrayRef dims) {
  int64_t count = 1;
  for (const auto dim : dims) {
    count *= tensor.dim() == 0 ? 1 : tensor.size(dim);
  }
  return count;
}

} // namespace weft
