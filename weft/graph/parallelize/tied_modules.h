#pragma once

#include "weft/graph/ir/program.h"
#include "weft/styles/parallel_plan.h"

namespace weft::graph {

/// A line for every layer of a program that a parallel plan does not name but shards, because a layer that it names has the same
/// weight:
///
///   plan entry "words" shards the weight of "words", which "head" has too: "head" is colwise
std::vector<std::string> tied_module_notes(const Program& program, const nn::ParallelPlan& plan);

} // namespace weft::graph
