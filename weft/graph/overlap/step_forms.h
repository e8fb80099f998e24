#pragma once

#include "weft/graph/overlap/collective_forms.h"

namespace weft::graph {

/// A step of a parallel program as a gather along one tensor dim, with the members of its group in their order. Steps that
/// cut or join several tensor dims, strided pieces, pieces in another order than the members', or pieces that torch.chunk
/// would not cut are refused.
Gather gather_of_step(Node& node, const DeviceMesh& mesh);
/// The same of one that reduces and cuts.
Scatter scatter_of_step(Node& node, const DeviceMesh& mesh);
Reduction reduction_of_step(Node& node, const DeviceMesh& mesh);

} // namespace weft::graph
