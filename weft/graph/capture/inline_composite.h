#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/ir/graph.h"

#include <ATen/core/boxing/KernelFunction.h>

namespace weft::graph {

/// Replaces the call of a composite operator by the operators that its kernel calls. The kernel runs without data and
/// its calls are recorded; those that are composite themselves are not expanded further. The new nodes have the origin
/// of the old one, and their outputs replace its outputs. Nodes without uses are left out.
///
///   %y = aten::linear(%x, %w, %b)
///   %t = aten::t(%w); %addmm = aten::addmm(%b, %x, %t)
///
/// Returns false and leaves the graph unchanged if the operator has no composite kernel, if a size is not a number, or
/// if the kernel needs data.
bool inline_composite(Graph& graph, Node* node);

/// The same with another kernel, such as a Decomposition's, that takes distributed tensors: each operand has its
/// layout, and is replicated if it has none. The new values have no layouts, and redistributions are left out. Raises
/// and leaves the graph unchanged if the kernel fails, or if it does something that no operator on global tensors
/// expresses. The kernel never communicates over the mesh's world, so that a fake world suffices.
void inline_kernel(Graph& graph, Node* node, const c10::KernelFunction& kernel, const DeviceMesh& mesh);

} // namespace weft::graph
