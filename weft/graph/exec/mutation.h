#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// An output that is written to a weight or to a user input when a run is over.
struct Mutation {
  size_t output;
  size_t input; // its number among Program::inputs
};

std::vector<Mutation> find_mutations(const Program& program);

/// Writes outputs to their targets, one per mutation. Every output is what it was before: one that lies in memory which is
/// written to becomes a copy first.
void write_back(
    std::vector<c10::IValue>& outputs,
    c10::ArrayRef<Mutation> mutations,
    c10::ArrayRef<at::Tensor> targets);

} // namespace weft::graph
