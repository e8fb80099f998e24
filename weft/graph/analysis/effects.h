#pragma once

#include "weft/graph/ir/graph.h"
#include "weft/propagation/is_random.h"

namespace weft::graph {

/// A collective that is still running when the call returns: `_c10d_functional.all_reduce` and the others that return a
/// new tensor.
bool starts_collective(const Node& node);
/// `_c10d_functional.wait_tensor`, which waits for the collective and returns its operand.
bool waits_for_collective(const Node& node);
/// Whether the call communicates with other ranks: a collective that is started, one in place, or a message.
bool communicates(const Node& node);

using weft::is_random;
/// The same for the operator that the node calls.
bool is_random(const Node& node);

/// Whether the node does more than to compute its outputs: it writes to memory, checks something, ends the graph, or
/// communicates. Steps of a redistribution, and the fused nodes that replace them in a program with layouts, have no
/// effect: they are the same on all ranks, so that all ranks can drop them. The collectives of one rank's program have
/// an effect, because another rank may need the result that this rank does not use.
bool has_side_effects(const Node& node);

} // namespace weft::graph
