#pragma once

#include "weft/graph/overlap/collective_forms.h"
#include "weft/graph/overlap/overlap_decision.h"
#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// Puts all_gather_matmul in the place of a gather and the matmuls that take it, where the gate says so. One that also needs
/// the gathered value on its other side, or that cannot be of them for another reason, takes the gathered value from the
/// fused operator, as all other uses do.
///
///   %whole = all_gather(%x, tp: {S(1)} -> {R})         %t = t(%wq), %t_1 = t(%wk)
///   %q = linear(%whole, %wq)                     ->    [%q, %k, %gathered] = weft::all_gather_matmul(
///   %k = linear(%whole, %wk)                               %x, [%t, %t_1], [], 1, None, 4, True, "tp")
///   %n = mean(%whole)                                  %n = mean(%gathered)
OverlapDecision fuse_gather(ProgramRewriter& rewriter, OverlapGate& gate, const Gather& gather);

} // namespace weft::graph
