#pragma once

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/local_sizes.h"

namespace weft::graph {

/// The size of the dim that a call's positions are in: of the table, or of what is written by position.
Size looked_up_size(const Node& node, const CallSharding::Lookup& lookup, const TrialValues& values);

/// Before a call that looks up positions in a dim of `size` that is cut: this rank's own_positions. The mask of the others
/// is given back. `operands` are the call's, of this rank, and are replaced.
///
///   embedding(%rows, %tokens)   ->   embedding(%rows, masked_fill(sub(%tokens, 8), %foreign, 0)), zero_where(%foreign)
Value* take_own_positions(
    GraphBuilder& build,
    const CallSharding::Lookup& lookup,
    const Size& size,
    const MeshPlace& place,
    std::vector<Value*>& operands);

/// The value with zeros where a mask, whose dims are its first ones, is true.
Value* zero_where(GraphBuilder& build, Value* value, Value* mask);

} // namespace weft::graph
