#pragma once

#include "weft/redistribute/step.h"

#include <vector>

namespace weft {

/// A part of a local tensor: per tensor dim, the ranges it is made of, in both tensors of a copy.
/// One range per dim wherever nothing is strided.
struct Box {
  c10::SmallVector<c10::SmallVector<Overlap, 1>, 4> dims;

  bool is_empty() const;
  /// Whether there is one range per dim, so that the part is a view.
  bool is_single() const;
  c10::DimVector shape() const;
};

/// What one rank gives to and gets from each member of a step's group, itself included.
struct Transfer {
  std::vector<Box> sends; // `held` positions are in this rank's tensor before, `wanted` ones in the part that is sent
  std::vector<Box> recvs; // `wanted` positions are in this rank's tensor after, `held` ones in the part that arrives
  c10::DimVector shape_after;
};

/// For the rank at `coordinate`, the data that a Slice, AllGather, AllToAll or ReduceScatter step moves. Members are
/// counted row-major over the step's mesh dims. Of ranks that hold the same, the receiver itself comes first, then they
/// take turns. In a ReduceScatter everybody sends each member its part.
Transfer transfer(const Step& step, c10::IntArrayRef sizes, c10::IntArrayRef mesh_shape, c10::IntArrayRef coordinate);

} // namespace weft
