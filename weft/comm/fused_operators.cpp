#include <torch/library.h>

// The operators that programs name; their kernels stand beside what they call. A `group` is the name of a group of ranks:
// in a program that Weft has sharded the mesh dims it spans ("tp", "dp,tp"), elsewhere that of a process group of c10d.
// Pieces are as torch.chunk cuts; `chunks` is into how many each is cut for the pipeline.
TORCH_LIBRARY(weft, library) {
  // shard @ other, of everybody's shards one after the other along `dim`, whose size is `size`: all shards are of the same
  // size where there is none. Then the gathered tensor, if `gathered`. Others are [inner, columns]; the shard may have more
  // dims than two. Where `dim` is the shard's last, the sum over members of shard @ their rows of the other.
  library.def(
      "all_gather_matmul(Tensor shard, Tensor[] others, Tensor?[] biases, int dim, SymInt? size, int chunks, "
      "bool gathered, str group) -> Tensor[]");
  // This member's piece along `dim` of the reduction of everybody's input @ other, summed over the pairs, + bias.
  library.def(
      "matmul_reduce_scatter(Tensor[] inputs, Tensor[] others, Tensor? bias, str reduce_op, int dim, int chunks, "
      "str group) -> Tensor");
  // The same by _scaled_mm. The scale of the shard is one number for all, or one per row: then it is cut as the shard is and
  // gathered too, or whole, where it has as many rows as the gathered tensor.
  library.def(
      "all_gather_scaled_matmul(Tensor shard, Tensor shard_scale, Tensor[] others, Tensor[] other_scales, "
      "Tensor?[] biases, Tensor?[] result_scales, ScalarType?[] out_dtypes, bool[] use_fast_accum, int dim, SymInt? "
      "size, "
      "int chunks, bool gathered, str group) -> Tensor[]");
  library.def(
      "scaled_matmul_reduce_scatter(Tensor input, Tensor other, Tensor input_scale, Tensor other_scale, Tensor? bias, "
      "Tensor? result_scale, ScalarType? out_dtype, bool use_fast_accum, str reduce_op, int dim, int chunks, str "
      "group) "
      "-> Tensor");
}
