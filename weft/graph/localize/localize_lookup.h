#pragma once

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/local_sizes.h"

namespace weft::graph {

/// The global size of the dim that a call's positions index: of the table, or of the tensor that is written by
/// position.
Size looked_up_size(const Node& node, const CallSharding::Lookup& lookup, const TrialValues& values);

/// Inserts this rank's own_positions before a call that looks up positions in a sharded dim of global size `size`.
/// Returns the mask of the positions that other ranks hold. `operands` are the call's local operands, and are replaced.
///
///   embedding(%rows, %tokens)   ->   embedding(%rows, masked_fill(sub(%tokens, 8), %foreign, 0)), zero_where(%foreign)
Value* take_own_positions(
    GraphBuilder& build,
    const CallSharding::Lookup& lookup,
    const Size& size,
    const MeshPlace& place,
    std::vector<Value*>& operands);

/// The value with zeros where a mask is true. The dims of the mask are the first dims of the value.
Value* zero_where(GraphBuilder& build, Value* value, Value* mask);

} // namespace weft::graph
