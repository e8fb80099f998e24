#pragma once

#include "weft/overlap/chunk_pipeline.h"

namespace weft {

/// Matmuls that overlap with a collective: received chunks are multiplied while others are sent.
///
///   auto [outputs, gathered] = all_gather_matmul(group, x, {wq, wk, wv}, {}, {.dim = 1, .chunks = 4});
///   auto y = matmul_reduce_scatter(group, {attention}, {wo}, {}, {.dim = 1, .chunks = 4});
///
/// The results are those of the collective and the matmul one after the other, up to the order of sums, and the same in
/// every run. Members that compute the same numbers may differ in the last bits, because each begins with its own
/// shard. All members make the same calls; outputs are contiguous.

/// The bias of every product, with one number per column; an undefined one adds nothing. Empty if no product has a
/// bias.
using Biases = c10::ArrayRef<at::Tensor>;

struct GatherMatmulOptions {
  int64_t dim = 0;                            // of the shard; if it is the last, the products are summed over members
  std::optional<int64_t> size = std::nullopt; // global, along `dim`, divided as by torch.chunk; none: equal shards
  int64_t chunks = 1;                         // per shard
  bool keeps_gathered = false;
};

struct GatheredMatmul {
  std::vector<at::Tensor> outputs; // one per other
  at::Tensor gathered;             // undefined unless keeps_gathered
};

/// The shards of all members, concatenated along `dim`, times each of `others` ([inner, columns]). The shard may have
/// more than two dims; its last is the inner one.
GatheredMatmul all_gather_matmul(
    Group& group,
    const at::Tensor& shard,
    at::TensorList others,
    Biases biases,
    const GatherMatmulOptions& options);

struct MatmulScatterOptions {
  int64_t dim = 0;             // of the product; shards are those of torch.chunk
  ReduceOp op = ReduceOp::Sum; // or Avg
  int64_t chunks = 1;
  std::optional<at::ScalarType> dtype =
      std::nullopt; // that sums of products are cast to before they are sent and reduced
};

/// This member's shard of the reduction over members of the sum over i of inputs[i] @ others[i], plus `bias` if it is
/// defined. Every member adds its own bias, so that a bias that all members pass is added once per member.
at::Tensor matmul_reduce_scatter(
    Group& group,
    at::TensorList inputs,
    at::TensorList others,
    const at::Tensor& bias,
    const MatmulScatterOptions& options);

/// Checks of both functions and of their forms with scales. Error texts begin with `where`.

/// The gathered dim and its chunks; raises if the dim, the number of chunks or the shard's length is not right.
ChunkedDim checked_gather_dim(
    const char* where,
    const Group& group,
    const at::Tensor& shard,
    const GatherMatmulOptions& options);
/// The scattered dim of a product of these sizes, and its chunks; raises as above.
ChunkedDim checked_scatter_dim(const char* where, c10::IntArrayRef product_sizes, const MatmulScatterOptions& options);
/// Raises unless `other` is a matrix of `inner` rows, and `bias`, if it is defined, has one number for each of its
/// columns.
void check_other(const char* where, const at::Tensor& other, int64_t inner, const at::Tensor& bias);

} // namespace weft
