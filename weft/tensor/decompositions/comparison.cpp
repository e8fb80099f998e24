#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/decompositions/reduced_dims.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

bool is_in_parts(const OpCall& /*call*/, c10::ArrayRef<SpecPtr> operands) {
  return any_is_sharded_or_partial(operands);
}

/// The same answer on every rank, by reducing one number per rank.
bool equal_on_all_ranks(const at::Tensor& self, const at::Tensor& other) {
  return self.sizes() == other.sizes() && self.eq(other).all().item<bool>();
}

} // namespace

void add_comparison_decompositions(Decompositions& all) {
  all.emplace(
      "aten::equal",
      Decomposition{&is_in_parts, c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(equal_on_all_ranks))});
}

} // namespace weft
