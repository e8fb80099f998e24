#pragma once

#include "weft/graph/overlap/collective_forms.h"
#include "weft/graph/overlap/overlap_decision.h"
#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// Replaces a gather and the matmuls that use it by all_gather_matmul, if the gate decides so. A matmul that cannot be
/// fused, because it has the gathered value on its right-hand side too or for another reason, uses the gathered value
/// that the fused operator returns, as all other uses do.
///
///   %full = all_gather(%x, tp: {S(1)} -> {R})          %t = t(%wq), %t_1 = t(%wk)
///   %q = linear(%full, %wq)                      ->    [%q, %k, %gathered] = weft::all_gather_matmul(
///   %k = linear(%full, %wk)                                %x, [%t, %t_1], [], 1, None, 4, True, "tp")
///   %n = mean(%full)                                   %n = mean(%gathered)
OverlapDecision fuse_gather(ProgramRewriter& rewriter, OverlapGate& gate, const Gather& gather);

} // namespace weft::graph
