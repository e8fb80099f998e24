#pragma once

#include "weft/graph/exec/instruction.h"
#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A program made ready to run on one rank: a flat list of instructions on numbered slots.
struct PreparedProgram {
  struct Step {
    std::unique_ptr<Instruction> instruction;
    const Node* node;
  };

  std::vector<Step> steps;
  std::vector<uint32_t> inputs; // of Program::inputs the slots; OutputSlots::kUnused where nobody reads it
  std::vector<Source> results;  // of Program::outputs
  size_t slot_count = 0;
  size_t transfer_count = 0;
};

/// Values leave their slots at their last use; weights stay in theirs. Collectives are on the groups of `mesh`, which may
/// be undefined for a program without.
PreparedProgram prepare(const Program& program, const DeviceMesh& mesh);

/// Whether a graph communicates.
bool has_collectives(const Graph& graph);

} // namespace weft::graph
