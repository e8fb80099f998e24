#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Uses the result of an earlier step again: equal steps become one step, equal chains of steps one chain, and a step
/// back to a layout that the tensor had before becomes the earlier value.
///
///   %g: {R} = all_gather(%x, tp: {S(0)} -> {R})
///   %s: {S(0)} = slice(%g, tp: {R} -> {S(0)})        %s becomes %x, and %g dead code unless it has other uses
///
/// Tensors that the graph writes to are skipped, because equal values may differ after a write.
/// Returns whether it changed anything.
bool common_redistributions(Graph& graph);

} // namespace weft::graph
