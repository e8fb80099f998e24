#include "weft/tensor/decompositions/batch_norm_input.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <algorithm>

namespace weft {

bool is_over_channels(const Placement& placement) {
  return placement.is_shard() && placement.dim() == kChannelDim;
}

bool shards_samples(const TensorSpec& spec) {
  const auto placements = spec.placements();
  return std::any_of(
      placements.begin(), placements.end(), [](const auto& p) { return p.is_shard() && p.dim() != kChannelDim; });
}

Layout channel_layout(const Layout& input) {
  return map_shards(
      without_partial(input), [](const Placement& p) { return is_over_channels(p) ? p.along(0) : Replicate(); });
}

const TensorSpec* spec_of(const OpCall& call, c10::ArrayRef<SpecPtr> operands, std::string_view name) {
  const auto operand = call.operand_of(name);
  return operand ? operands[*operand].get() : nullptr;
}

bool leaves_a_rank_empty(const TensorSpec& spec) {
  const auto& mesh = spec.mesh();
  // The last rank along every mesh dim holds the fewest elements.
  std::vector<int64_t> last;
  for (const auto size : mesh.shape()) {
    last.push_back(size - 1);
  }
  const auto block = local_shape_and_offset(spec.sizes(), spec.layout(), mesh.shape(), last);
  return c10::multiply_integers(block.shape) == 0;
}

bool normalizes_empty_shards(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  const auto& input = *spec_of(call, operands, "input");
  return input.dim() >= 2 && c10::multiply_integers(input.sizes()) != 0 && spec_of(call, operands, "running_mean") &&
      leaves_a_rank_empty(input);
}

at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[kChannelDim] = values.size(0);
  return values.view(shape);
}

std::vector<int64_t> sample_dims(const at::Tensor& input) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < input.dim(); ++d) {
    if (d != kChannelDim) {
      dims.push_back(d);
    }
  }
  return dims;
}

int64_t samples_per_channel(const at::Tensor& input) {
  return input.size(kChannelDim) == 0 ? 0 : input.numel() / input.size(kChannelDim);
}

at::Tensor without_partial(const char* op, const at::Tensor& input) {
  return is_dtensor(input) ? move_implicitly(op, input, without_partial(as_dtensor(input)->spec()->layout())) : input;
}

} // namespace weft
