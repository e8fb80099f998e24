#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The inputs of a graph whose memory its operators write to, directly or through views, as their schemas say.
///
///   %v = aten::view(%buffer, [-1]); aten::add_.Tensor(%v, 1)      writes %buffer
std::unordered_set<const Value*> written_inputs(const Graph& graph);

} // namespace weft::graph
