#pragma once

#include "weft/overlap/fused_matmul.h"

namespace weft {

/// The matmuls of weft/overlap/fused_matmul.h by _scaled_mm, of numbers with 8 bits and their scales.
///
///   auto [outputs, gathered] = all_gather_scaled_matmul(group, x, x_scale, {{.values = w, .scale = w_scale,
///                                                    .out_dtype = at::kBFloat16}}, {.dim = 0, .chunks = 4});
///
/// The scale of the shard, or input, is one number, or one per row: as many dims as the shard, the last of size 1. A
/// scale per row of the shard is gathered with the shard; a scale per row of the gathered tensor is used as it is. If
/// shards may differ in length, a single number must have fewer dims than the shard, because a shard of one row may
/// have a scale per row with as many dims.

/// The right-hand side of one product, as _scaled_mm takes it.
struct ScaledOther {
  at::Tensor values; // [inner, columns]
  at::Tensor scale;  // one number, or [1, columns]
  at::Tensor bias = {};
  at::Tensor result_scale = {};
  std::optional<at::ScalarType> out_dtype = std::nullopt;
  bool use_fast_accum = false;
};

/// Any dim but the last may be gathered.
GatheredMatmul all_gather_scaled_matmul(
    Group& group,
    const at::Tensor& shard,
    const at::Tensor& shard_scale,
    c10::ArrayRef<ScaledOther> others,
    const GatherMatmulOptions& options);

/// Products are added up in the `out_dtype`, which must have more than 8 bits.
at::Tensor scaled_matmul_reduce_scatter(
    Group& group,
    const at::Tensor& input,
    const at::Tensor& input_scale,
    const ScaledOther& other,
    const MatmulScatterOptions& options);

} // namespace weft
