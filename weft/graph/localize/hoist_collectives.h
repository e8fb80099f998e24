#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// In a rank's program, starts each collective as early as its operands and the collectives before it allow, and waits
/// for it as late as possible, just before the first use, so that the nodes in between run meanwhile. A redistribution
/// step of a program that is not localized is start and wait in one node, and stays where it is.
///
///   %a = ...                                        %a = ...
///   %b = ...                                        %r = all_reduce(%a, "sum", "tp")
///   %r = all_reduce(%a, "sum", "tp")         ->     %b = ...
///   %w = wait_tensor(%r)                            %c = ...
///   %c = ...                                        %w = wait_tensor(%r)
///   %d = add(%w, %c)                                %d = add(%w, %c)
///
/// Collectives keep their order, which must be the same on all ranks. Neither start nor wait moves past a node that
/// writes to the memory of the collective's operands or result. At most `in_flight` collectives are under way at once:
/// where weights are gathered just before their use, more would gather the weights of the full model at once.
///
/// Returns whether it changed anything.
bool hoist_collectives(Graph& graph, size_t in_flight = 16);

} // namespace weft::graph
