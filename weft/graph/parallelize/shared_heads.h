#pragma once

#include "weft/graph/ir/graph.h"

#include "weft/core/device_mesh.h"

namespace weft::graph {

/// If several ranks share a head of the key in grouped-query attention (weft/core/shared_heads.h), repeats the heads of
/// key and value until every rank has its own head:
///
///   attention(%q {S(1)}, %k {R}, %v {R})   ->   attention(%q {S(1)}, repeat_interleave(%k, 2, 1) {R}, ...)
///
/// A rank computes only those of the repeated heads that it takes (localize). Returns whether it changed anything.
bool repeat_shared_heads(Graph& graph, Node* node, const DeviceMesh& mesh);

} // namespace weft::graph
