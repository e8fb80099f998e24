#pragma once

#include "weft/graph/overlap/collective_forms.h"
#include "weft/graph/overlap/overlap_decision.h"
#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// Replaces a reduce-scatter and the matmuls whose products it reduces by matmul_reduce_scatter, if the gate decides
/// so.
///
///   %y = linear(%x, %w)                                     %t = t(%w)
///   %z = reduce_scatter(%y, tp: {P(sum)} -> {S(1)})   ->    %z = weft::matmul_reduce_scatter(
///                                                               [%x], [%t], None, "sum", 1, 4, "tp")
OverlapDecision fuse_scatter(ProgramRewriter& rewriter, OverlapGate& gate, const Scatter& scatter);

/// The same for an all-reduce, which becomes a reduce-scatter along a dim that the members divide evenly, and a gather.
OverlapDecision fuse_reduction(ProgramRewriter& rewriter, OverlapGate& gate, const Reduction& reduction);

} // namespace weft::graph
