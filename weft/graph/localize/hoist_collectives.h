#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// In a rank's program, starts each collective as early as its operands and the collectives before it allow, and waits for
/// it as late as possible, just before the first use, so that what lies between runs meanwhile. A step of a program that is
/// not localized is start and wait in one: there is nothing to move there.
///
///   %a = ...                                        %a = ...
///   %b = ...                                        %r = all_reduce(%a, "sum", "tp")
///   %r = all_reduce(%a, "sum", "tp")         ->     %b = ...
///   %w = wait_tensor(%r)                            %c = ...
///   %c = ...                                        %w = wait_tensor(%r)
///   %d = add(%w, %c)                                %d = add(%w, %c)
///
/// Collectives keep their order among each other, which is that of all other ranks. Neither start nor wait passes a node
/// that writes to memory which the collective reads or gives. At most `in_flight` collectives are under way: with weights
/// that are gathered where they are used, more would hold the whole model at once.
///
/// Returns whether it changed anything.
bool hoist_collectives(Graph& graph, size_t in_flight = 16);

} // namespace weft::graph
