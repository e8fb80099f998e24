#include "weft/nn/cross_entropy_call.h"

#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace weft::nn {

bool has_distributed_classes(const CrossEntropyCall& call) {
  const auto* impl = as_dtensor(call.logits);
  if (impl == nullptr || call.logits.dim() == 0 || !impl->spec()->mesh().is_member()) {
    return false;
  }
  const auto& spec = *impl->spec();
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    const auto& placement = spec.layout()[m];
    if (spec.mesh().size(m) > 1 && (placement.is_partial() || placement.is_shard(call.class_dim()))) {
      return true;
    }
  }
  return false;
}

bool is_regular(const CrossEntropyCall& call) {
  const auto& logits = call.logits;
  const auto& target = call.target;
  const bool has_weight = call.weight && call.weight->defined();
  if (!at::isFloatingType(logits.scalar_type()) || call.class_count() == 0 || call.label_smoothing < 0 ||
      call.label_smoothing > 1 || call.reduction < at::Reduction::None || call.reduction > at::Reduction::Sum ||
      (has_weight &&
       (call.weight->dim() != 1 || call.weight->size(0) != call.class_count() || call.weight->requires_grad() ||
        call.weight->scalar_type() != logits.scalar_type()))) {
    return false;
  }
  if (call.has_probabilities()) {
    return at::isFloatingType(target.scalar_type()) && call.ignore_index < 0;
  }
  auto rows = logits.sizes().vec();
  rows.erase(rows.begin() + call.class_dim());
  return target.scalar_type() == at::kLong && target.sizes() == rows;
}

at::ScalarType loss_dtype(const CrossEntropyCall& call) {
  const auto dtype = call.has_probabilities() ? at::result_type(call.logits, call.target) : call.logits.scalar_type();
  const bool is_narrow = dtype == at::kHalf || dtype == at::kBFloat16;
  return is_narrow && at::autocast::is_autocast_enabled(call.logits.device().type()) ? at::kFloat : dtype;
}

} // namespace weft::nn
