#pragma once

namespace weft {

/// The positions that a rank looks up where the dim they are in is cut, and which of them other ranks hold.
template <class Tensor>
struct OwnPositions {
  Tensor positions; // in the part of the dim that this rank holds
  Tensor foreign;   // a mask of the shape of the positions
};

/// Of positions in a dim of `size`, of which this rank holds `length` from `begin`. Positions that other ranks hold become
/// the first one; those that no rank holds become -1, which the operator refuses. `ops` computes on tensors in an eager
/// call and writes nodes in a program:
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
