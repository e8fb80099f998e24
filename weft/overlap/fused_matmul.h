#pragma once

#include "weft/overlap/chunk_pipeline.h"

namespace weft {

/// Matmuls beside a collective: what is there is multiplied while the rest is under way, chunk by chunk.
///
///   auto [outputs, whole] = all_gather_matmul(group, x, {wq, wk, wv}, {}, {.dim = 1, .chunks = 4});
///   auto y = matmul_reduce_scatter(group, {attention}, {wo}, {}, {.dim = 1, .chunks = 4});
///
/// The numbers are those of the collective and the matmul one after the other, up to the order of sums, and the same in
/// every run. Members that compute the same numbers may differ in their last bits, since each begins with what it has. All
/// members make the same calls; outputs are contiguous.

/// Addends of the products, each of one dim, with a number per column; an undefined one adds nothing. Empty for none at all.
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
  std::optional<at::ScalarType> dtype =
      std::nullopt; // that sums of products are cast to before they are sent and reduced
};

/// This member's piece of the reduction over members of the sum over i of inputs[i] @ others[i], plus `bias` where it is
/// defined: each member's own, so that a bias that all have is added once per member.
at::Tensor matmul_reduce_scatter(
    Group& group,
    at::TensorList inputs,
    at::TensorList others,
    const at::Tensor& bias,
    const MatmulScatterOptions& options);

/// What both check, for the forms with scales too. `where` begins the error's text.

/// The cut of a gather; raises where the dim, the number of chunks, or the shard's length is not right.
ChunkedDim checked_gather_cut(
    const char* where,
    const Group& group,
    const at::Tensor& shard,
    const GatherMatmulOptions& options);
/// The cut of a scatter of a product of these sizes.
ChunkedDim checked_scatter_cut(const char* where, c10::IntArrayRef product_sizes, const MatmulScatterOptions& options);
/// Raises unless `other` is a matrix of `inner` rows, and `bias`, where it is defined, has a number for each of its columns.
void check_other(const char* where, const at::Tensor& other, int64_t inner, const at::Tensor& bias);

} // namespace weft
