#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/propagation/decomposition.h"
#include "weft/rules/op_call.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// The input of a batch norm, [samples, channels, ...]: statistics are taken over all dims but that of the channels.
///
///   f32[8,3,32,32] {S(0)}   ->   two numbers for each of 3 channels, over 8 * 32 * 32 values on several ranks
constexpr int64_t kChannelDim = 1;

bool is_over_channels(const Placement& placement);
/// Whether a mesh dim shards one of the dims that statistics are taken over.
bool shards_samples(const TensorSpec& spec);
/// The layout of one number per channel: sharded by the mesh dims that shard the input's channels, in the same shard
/// order.
Layout channel_layout(const Layout& input);

/// Whether some rank holds no element, which local kernels refuse.
bool leaves_a_rank_empty(const TensorSpec& spec);

/// The spec of an argument; nullptr where the call has none of that name.
const TensorSpec* spec_of(const OpCall& call, c10::ArrayRef<SpecPtr> operands, std::string_view name);
/// Whether a call uses the running statistics (evaluation) on an input of which some rank holds no element. Such a call
/// needs no communication, but the rule cannot serve it, because local kernels refuse an input without elements.
bool normalizes_empty_shards(const OpCall& call, c10::ArrayRef<SpecPtr> operands);

/// One number per channel, in the shape that broadcasts against the input.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input);
std::vector<int64_t> sample_dims(const at::Tensor& input);
int64_t samples_per_channel(const at::Tensor& input);
/// The input with its partial values reduced.
at::Tensor without_partial(const char* op, const at::Tensor& input);

/// Part of add_batch_norm_decompositions.
void add_batch_norm_backward_decompositions(Decompositions& all);

} // namespace weft
