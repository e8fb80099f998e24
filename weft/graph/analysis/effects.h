#pragma once

#include "weft/graph/ir/graph.h"
#include "weft/propagation/is_random.h"

namespace weft::graph {

/// A collective that is under way when it returns: `_c10d_functional.all_reduce` and its like, which give a new tensor.
bool starts_collective(const Node& node);
/// `_c10d_functional.wait_tensor`, whose output is its operand when it has arrived.
bool waits_for_collective(const Node& node);
/// Whether other ranks take part: a collective that is started, one in place, a message.
bool communicates(const Node& node);

using weft::is_random;
/// Of the operator that the node calls.
bool is_random(const Node& node);

/// Whether the node does more than to compute its outputs: it writes to memory, checks something, ends the graph, or
/// communicates. Steps of a redistribution do nothing more, nor what became of them in a program with layouts: they are the
/// same on all ranks. A rank's collectives are not:
/// where one rank has no use for what comes, another may.
bool has_side_effects(const Node& node);

} // namespace weft::graph
