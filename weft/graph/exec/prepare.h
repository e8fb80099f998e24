#pragma once

#include "weft/graph/exec/instruction.h"
#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A program prepared for one rank: a flat list of instructions on numbered slots.
struct PreparedProgram {
  struct Step {
    std::unique_ptr<Instruction> instruction;
    const Node* node;
  };

  std::vector<Step> steps;
  std::vector<uint32_t> inputs; // the slots of Program::inputs; OutputSlots::kUnused if no node reads it
  std::vector<Source> results;  // the sources of Program::outputs
  size_t slot_count = 0;
  size_t transfer_count = 0;
};

/// Values leave their slots at their last use; weights stay. Collectives use the groups of `mesh`, which may be
/// undefined for a program without collectives.
PreparedProgram prepare(const Program& program, const DeviceMesh& mesh);

/// Whether a graph communicates.
bool has_collectives(const Graph& graph);

} // namespace weft::graph
