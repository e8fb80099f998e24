#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/exec/instruction.h"

namespace weft::graph {

/// Torch's functional collectives run on the groups of a mesh: a `group_name` of "tp" or "dp,tp" is the ranks that differ
/// from this one only along these mesh dims. What they give is defined as torch defines it:
///
///   all_reduce(x, op, group)                       the reduction of everybody's x
///   all_gather_into_tensor(x, n, group)            everybody's x, one after the other along dim 0
///   reduce_scatter_tensor(x, op, n, group)         this member's n-th along dim 0 of the reduction
///   all_to_all_single(x, outputs, inputs, group)   dim 0 cut by `inputs`, piece i to member i; what comes is `outputs` long
///   broadcast(x, source, group)                    member `source`'s x
///   *_coalesced                                    the same of each tensor of a list
///
/// Each starts where it stands and is under way until wait_tensor.

bool is_collective(const c10::OperatorHandle& op);
bool is_wait(const c10::OperatorHandle& op);

/// Starts a collective, whose outputs are on their way as the transfers `first_transfer`, ... . Makes its group, in which
/// its members meet. Raises for a collective that is not above.
std::unique_ptr<Instruction> make_collective_start(
    const Node& node,
    std::vector<Source> arguments,
    OutputSlots outputs,
    uint32_t first_transfer,
    const DeviceMesh& mesh);

/// Waits for a transfer.
std::unique_ptr<Instruction> make_transfer_wait(uint32_t transfer);

/// Whether an operator, of Weft's own library, communicates by itself: a matmul beside a collective. It is done when it
/// returns. Its `group` is named as that of a collective is.
bool names_group(const c10::OperatorHandle& op);

/// Such an operator, on the groups of the mesh. Makes its group.
std::unique_ptr<Instruction> make_group_call(
    const Node& node,
    std::vector<Source> arguments,
    OutputSlots outputs,
    const DeviceMesh& mesh);

/// A value under another name.
std::unique_ptr<Instruction> make_forward(Source source, uint32_t output);

} // namespace weft::graph
