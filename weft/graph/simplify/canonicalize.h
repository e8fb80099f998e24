#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// Rewrites calls to the one form that rules and size arguments support, before a program is sharded: a split with a
/// list of equal sizes becomes a split by that size, and so do slices that divide a layer's output into chunks of equal
/// size, as joint queries, keys and values are; checks of global sizes are removed.
///
///   %a, %b = split_with_sizes(%x, [4, 4], 1)                     ->        %a, %b = split(%x, 4, 1)
///   %a = slice(%linear, 1, 0, 4); %b = slice(%linear, 1, 4)      ->        %a, %b = split(%linear, 4, 1)
///
/// Returns whether it changed anything.
bool canonicalize(Graph& graph);

} // namespace weft::graph
