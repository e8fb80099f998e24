#pragma once

#include "weft/core/shard_math.h"
#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

/// How a window slides along a dim: output o is computed from the inputs o * stride - padding + dilation * t for every t of
/// the window. Inputs outside of the tensor count as zeros, as `padding` at both ends.
struct SlidingWindow {
  int64_t length = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;

  int64_t outputs_of(int64_t inputs) const;
  /// The inputs that a run of outputs is computed from; it begins before 0 or ends behind the tensor where there is padding.
  Run inputs_of(Run outputs) const;
};

/// Communication inside of an operator's kernel, as in implicit_move.h, for operators that slide windows along sharded dims: to
/// compute its shard of the output, a rank needs the halo of its own shard of the input, rows of its neighbours.
///
///   f32[8] {S(0)} on two ranks, a window of 3 with padding 1
///     rank 0 holds 0 1 2 3 and takes [zero, 0, 1, 2, 3, 4]; rank 1 holds 4 5 6 7 and takes [3, 4, 5, 6, 7, zero]
class Halo {
 public:
  /// `windows` has an entry for every tensor dim, and `mesh_dims` shard those along which windows slide. The output has the
  /// layout of the input, whose shards are not strided.
  Halo(const SpecPtr& input, MeshDims mesh_dims, const std::vector<SlidingWindow>& windows);

  /// Whether the window along this dim differs from the shard.
  bool slides_along(int64_t tensor_dim) const;
  /// What the member with the most to receive takes from other members, in terms of the largest shard: 0.25 for a quarter of it.
  /// Every rank of the mesh gets the same result, since dims along which no window slides do not count.
  double received_share() const;
  /// This rank's window of the input: its shard with the halo and zeros around it. One all-to-all.
  at::Tensor gathered(const char* op, const at::Tensor& shard) const;
  /// The adjoint: the sum of what all windows have of this rank's shard. One all-to-all. Members are added in their order.
  at::Tensor scattered(const char* op, const at::Tensor& window) const;
  c10::DimVector window_shape() const;

 private:
  using Region = c10::SmallVector<Run, 4>;
  struct Member {
    Region shard;
    Region window;
  };

  Member member_at(c10::IntArrayRef coordinate, const std::vector<SlidingWindow>& windows) const;
  void tell(const char* op) const;

  SpecPtr input_;
  MeshDims mesh_dims_;
  std::vector<Member> members_;
  size_t own_ = 0;
};

} // namespace weft
