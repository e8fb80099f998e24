#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// An output that is written to a weight or to a user input at the end of a run.
struct Mutation {
  size_t output;
  size_t input; // its index in Program::inputs
};

std::vector<Mutation> find_mutations(const Program& program);

/// Writes outputs to their targets, one per mutation. An output whose memory one of the writes changes is copied first,
/// so that every output keeps its value.
void write_back(
    std::vector<c10::IValue>& outputs,
    c10::ArrayRef<Mutation> mutations,
    c10::ArrayRef<at::Tensor> targets);

} // namespace weft::graph
