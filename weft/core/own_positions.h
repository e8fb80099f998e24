#pragma once

namespace weft {

/// The positions that a rank looks up in its shard of a sharded dim, and which of them are on other ranks.
template <class Tensor>
struct OwnPositions {
  Tensor positions; // relative to this rank's shard of the dim
  Tensor foreign;   // a mask of the shape of the positions
};

/// `positions` are global indices of a dim of `size`, of which this rank holds `length` indices from `begin`. Positions
/// on other ranks become 0; positions outside of the dim become -1, which the operator refuses. `ops` computes on
/// tensors in an eager call and adds nodes to a program:
///
///   subtract(tensor, number), is_outside(tensor, end) for not in [0, end), fill(tensor, mask, number)
template <class Ops, class Tensor, class Number>
OwnPositions<Tensor> own_positions(
    const Ops& ops,
    const Tensor& positions,
    const Number& begin,
    const Number& length,
    const Number& size) {
  const Tensor moved = ops.subtract(positions, begin);
  const Tensor foreign = ops.is_outside(moved, length);
  const Tensor nowhere = ops.is_outside(positions, size);
  return {ops.fill(ops.fill(moved, foreign, 0), nowhere, -1), foreign};
}

} // namespace weft
