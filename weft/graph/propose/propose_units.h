#pragma once

#include "weft/graph/propose/propose_plan.h"

namespace weft::graph {

/// Adds to a proposed plan that the repeated blocks of a program are fully sharded over a mesh dim, each by itself, and the rest
/// of the model as one more unit:
///
///   layers.*      fully sharded over dp: one of 12 blocks, gathered while another computes
///   (the model)   fully sharded over dp: what is in no block
///
/// Blocks are modules of the outermost list, those whose names are numbers, that have submodules.
void propose_units(ProposedPlan& proposed, const Program& program, const std::string& mesh_dim);

} // namespace weft::graph
