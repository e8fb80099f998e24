#pragma once

#include "weft/overlap/fused_matmul.h"

namespace weft {

/// The matmuls of weft/overlap/fused_matmul.h by _scaled_mm, of numbers with 8 bits and their scales.
///
///   auto [outputs, whole] = all_gather_scaled_matmul(group, x, x_scale, {{.values = w, .scale = w_scale,
///                                                    .out_dtype = at::kBFloat16}}, {.dim = 0, .chunks = 4});
///
/// The scale of the shard, or input, is one number, or one per row: as many dims as the shard, the last of one element. A
/// scale per row of a shard is gathered with it, unless it is for all rows of the whole. Where shards may differ in length,
/// one number for all has fewer dims than the shard, so that it is told from a scale per row of a shard of one row.

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

/// The numbers that are added up are of the `out_dtype`, which must have more than 8 bits.
at::Tensor scaled_matmul_reduce_scatter(
    Group& group,
    const at::Tensor& input,
    const at::Tensor& input_scale,
    const ScaledOther& other,
    const MatmulScatterOptions& options);

} // namespace weft
