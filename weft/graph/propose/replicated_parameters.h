#pragma once

#include "weft/graph/propose/propose_plan.h"

namespace weft::graph {

/// Counts the parameters that every rank holds under a proposed plan, and adds those of two and more dims for which
/// `left_out` has no reason yet, with what uses them:
///
///   patches.weight      left replicated: aten::conv2d uses it, for which there is no style
///
/// Parameters of one dim, as those of norms, are counted alone.
void add_replicated_parameters(ProposedPlan& proposed, const Program& program, int64_t ranks);

} // namespace weft::graph
