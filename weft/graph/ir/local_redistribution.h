#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The operator of a redistribution in a recorded rank's program:
///
///   weft::redistribute_local(Tensor(a) local, int[] sizes, str source, str target) -> Tensor(a)
///   %y = weft::redistribute_local(%x, [8, 16], "{S(0), R}", "{R, R}")
///
/// This rank's local tensor of a tensor of these global sizes, from one layout on the program's mesh to another. The executor runs
/// it as eager mode does: in the background, with the same messages and the same order of adding. It is only a name in
/// programs and has no kernel.
const c10::OperatorHandle& redistribute_local();
bool is_local_redistribution(const Node& node);

} // namespace weft::graph
