#pragma once

#include "weft/graph/ir/graph.h"

#include "weft/core/device_mesh.h"

namespace weft::graph {

/// Grouped-query attention where ranks share heads of the key: eight heads of the query on four ranks, two heads of the key
/// that every rank computes. No placement says which head of the key a rank needs, and by the rules the query would move.
/// So the heads of key and value are repeated until every rank has one of its own, which it then takes:
///
///   attention(%q {S(1)}, %k {R}, %v {R})   ->   attention(%q {S(1)}, repeat_interleave(%k, 2, 1) {R}, ...)
///
/// Of the repeated heads a rank computes those alone that it takes (localize). Returns whether it changed anything.
bool repeat_shared_heads(Graph& graph, Node* node, const DeviceMesh& mesh);

} // namespace weft::graph
