#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/exec/instruction.h"

namespace weft::graph {

/// Starts a `redistribute_local` whose result becomes the transfer `transfer`. Its groups are created here, which all
/// members do together.
std::unique_ptr<Instruction> make_redistribution_start(
    const Node& node,
    Source local,
    uint32_t transfer,
    const DeviceMesh& mesh);

/// Waits for the transfer and puts its result into a slot.
std::unique_ptr<Instruction> make_redistribution_wait(uint32_t transfer, uint32_t output);

} // namespace weft::graph
