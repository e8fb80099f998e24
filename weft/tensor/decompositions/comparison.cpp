#include "weft/tensor/decomposition.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace weft {

namespace {

bool is_distributed(const OpCall& /*call*/, c10::ArrayRef<SpecPtr> operands) {
  return std::any_of(operands.begin(), operands.end(), [](const SpecPtr& spec) {
    const auto placements = spec->placements();
    return std::any_of(placements.begin(), placements.end(), [](const auto& p) { return !p.is_replicate(); });
  });
}

/// The same answer on every rank, from one number each.
bool equal_on_all_ranks(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(
      self.scalar_type() == other.scalar_type(), "equal: both tensors must have one dtype, but got ",
      self.scalar_type(), " and ", other.scalar_type(), ".");
  return self.sizes() == other.sizes() && self.eq(other).all().item<bool>();
}

} // namespace

void add_comparison_decompositions(Decompositions& all) {
  all.emplace(
      "aten::equal",
      Decomposition{&is_distributed, c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(equal_on_all_ranks))});
}

} // namespace weft
