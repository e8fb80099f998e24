#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Writes calls in the one form that rules and size arguments understand, before a program is sharded: a split into equal
/// sizes that are listed becomes one by their size, and checks of what a whole tensor's sizes are go.
///
///   %a, %b = split_with_sizes(%x, [4, 4], 1)        ->        %a, %b = split(%x, 4, 1)
///
/// Returns whether it changed anything.
bool canonicalize(Graph& graph);

} // namespace weft::graph
