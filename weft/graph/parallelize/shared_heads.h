#pragma once

#include "weft/graph/ir/graph.h"

#include "weft/core/device_mesh.h"

namespace weft::graph {

/// Where ranks share heads of the key in grouped-query attention (weft/core/shared_heads.h), the heads of key and value are
/// repeated until every rank has one of its own, which it then takes:
///
///   attention(%q {S(1)}, %k {R}, %v {R})   ->   attention(%q {S(1)}, repeat_interleave(%k, 2, 1) {R}, ...)
///
/// Of the repeated heads a rank computes those alone that it takes (localize). Returns whether it changed anything.
bool repeat_shared_heads(Graph& graph, Node* node, const DeviceMesh& mesh);

} // namespace weft::graph
