#pragma once

#include "weft/graph/overlap/collective_forms.h"

namespace weft::graph {

/// A redistribution step of a parallel program as a gather along one tensor dim, with the shards in the order of the
/// group's members. A step is refused if it gathers several tensor dims, if the shards are strided or in another order,
/// or if they are not those of torch.chunk.
Gather gather_of_step(Node& node, const DeviceMesh& mesh);
/// The same for a step that reduces and scatters.
Scatter scatter_of_step(Node& node, const DeviceMesh& mesh);
Reduction reduction_of_step(Node& node, const DeviceMesh& mesh);

} // namespace weft::graph
