#pragma once

#include "weft/comm/group.h"

#include <ATen/core/List.h>

namespace weft {

/// Matmuls beside a collective: what is there is multiplied while the rest is under way, chunk by chunk.
///
///   auto [outputs, whole] = all_gather_matmul(group, x, {wq, wk, wv}, {}, {.dim = 1, .chunks = 4});
///   auto y = matmul_reduce_scatter(group, {attention}, {wo}, {}, {.dim = 1, .chunks = 4});
///
/// The numbers are those of the collective and the matmul one after the other, up to the order of sums, and the same in
/// every run. Chunks go round a ring, so that between hosts each is sent once. All members make the same calls.

/// Addends of the products; an undefined one adds nothing. Empty for none at all.
using Biases = c10::ArrayRef<at::Tensor>;

struct GatherMatmulOptions {
  int64_t dim = 0; // of the shard; where it is the last, the products are summed over members
  std::optional<int64_t> size = std::nullopt; // of the whole along `dim`, cut as torch.chunk cuts; none: equal shards
  int64_t chunks = 1;                         // per shard
  bool keeps_gathered = false;
};

struct GatheredMatmul {
  std::vector<at::Tensor> outputs; // one per other
  at::Tensor gathered;             // where it is kept
};

/// Everybody's shards, one after the other along `dim`, times each of `others` ([inner, columns]). The shard may have more
/// than two dims; its last is the inner one.
GatheredMatmul all_gather_matmul(
    Group& group,
    const at::Tensor& shard,
    at::TensorList others,
    Biases biases,
    const GatherMatmulOptions& options);

struct MatmulScatterOptions {
  int64_t dim = 0;             // of the product; pieces are as torch.chunk cuts
  ReduceOp op = ReduceOp::Sum; // or Avg
  int64_t chunks = 1;
};

/// This member's piece of the reduction over members of the sum over i of inputs[i] @ others[i], plus `bias` where it is
/// defined.
at::Tensor matmul_reduce_scatter(
    Group& group,
    at::TensorList inputs,
    at::TensorList others,
    const at::Tensor& bias,
    const MatmulScatterOptions& options);

} // namespace weft
