#pragma once

#include "weft/redistribute/step.h"

#include <vector>

namespace weft {

/// A block of a local tensor: per tensor dim, the ranges that it consists of, as positions in both tensors of a copy.
/// There is one range per dim unless a shard is strided.
struct Box {
  c10::SmallVector<c10::SmallVector<Intersection, 1>, 4> dims;

  bool is_empty() const;
  /// Whether there is one range per dim, so that the block is a view.
  bool is_single() const;
  c10::DimVector shape() const;
};

/// The data that one rank sends to and receives from each member of a step's group, itself included.
struct Transfer {
  std::vector<Box> sends; // `held` positions are in this rank's tensor before the step, `wanted` ones in the message
  std::vector<Box> recvs; // `wanted` positions are in this rank's tensor after the step, `held` ones in the message
  c10::DimVector shape_after;
};

/// The data that a Slice, AllGather, AllToAll or ReduceScatter step transfers, for the rank at `coordinate`. Members
/// are numbered row-major over the step's mesh dims. If several members hold the same values, the receiver keeps its
/// own, and otherwise the senders are chosen evenly. In a ReduceScatter every member sends to each member its shard.
Transfer transfer(const Step& step, c10::IntArrayRef sizes, c10::IntArrayRef mesh_shape, c10::IntArrayRef coordinate);

} // namespace weft
