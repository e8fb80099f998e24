#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Where a step's result exists already, it is used again: two equal steps become the first one, equal chains of steps one
/// chain, and a step back to a layout that the tensor had on the way gives what was there.
///
///   %g: {R} = all_gather(%x, tp: {S(0)} -> {R})
///   %s: {S(0)} = slice(%g, tp: {R} -> {S(0)})        %s becomes %x, and %g dead code unless others use it
///
/// Tensors that are written to somewhere in the graph are left alone: what is equal now may not be so later.
/// Returns whether it changed anything.
bool common_redistributions(Graph& graph);

} // namespace weft::graph
