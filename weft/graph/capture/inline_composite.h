#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/ir/graph.h"

#include <ATen/core/boxing/KernelFunction.h>

namespace weft::graph {

/// Puts in place of a call what it is made of. The kernel is run without data, and what it calls is recorded: operators
/// that are made of others again stay whole. The new nodes have the old one's origin. What they give is used where the
/// old one's was; nodes that nothing uses are left out.
///
///   %y = aten::linear(%x, %w, %b)
///   %t = aten::t(%w); %addmm = aten::addmm(%b, %x, %t)
///
/// False where the operator has no kernel made of others, where a size is not a number, and where the kernel needs data;
/// the graph is as it was then.
bool inline_composite(Graph& graph, Node* node);

/// As above by another kernel, such as a Decomposition's, that takes distributed tensors: each operand of its layout, and
/// replicated where it has none. The new values have no layouts, and redistributions are left out. Raises where the kernel fails, or does something that no
/// operator on whole tensors says, and leaves the graph as it was. The mesh's world is never spoken to: one that is fake
/// will do.
void inline_kernel(Graph& graph, Node* node, const c10::KernelFunction& kernel, const DeviceMesh& mesh);

} // namespace weft::graph
