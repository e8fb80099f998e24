#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/exec/instruction.h"

namespace weft::graph {

/// Torch's functional collectives on the groups of a mesh: a `group_name` of "tp" or "dp,tp" is the group of the ranks
/// that differ from this one only along these mesh dims. The results are as torch defines them:
///
///   all_reduce(x, op, group)                       the reduction of the x of all members
///   all_gather_into_tensor(x, n, group)            the x of all members, concatenated along dim 0
///   reduce_scatter_tensor(x, op, n, group)         this member's n-th of the reduction along dim 0
///   all_to_all_single(x, outputs, inputs, group)   slices of dim 0 of lengths `inputs`, slice i goes to member i
///   broadcast(x, source, group)                    the x of member `source`
///   *_coalesced                                    the same for each tensor of a list
///
/// Each collective starts where its node is and runs until wait_tensor.

bool is_collective(const c10::OperatorHandle& op);
bool is_wait(const c10::OperatorHandle& op);

/// Starts a collective whose outputs become the transfers `first_transfer`, ... . Creates its group, which all members
/// do together. Raises for a collective that is not in the list above.
std::unique_ptr<Instruction> make_collective_start(
    const Node& node,
    std::vector<Source> arguments,
    OutputSlots outputs,
    uint32_t first_transfer,
    const DeviceMesh& mesh);

/// Waits for a transfer.
std::unique_ptr<Instruction> make_transfer_wait(uint32_t transfer);

/// Whether an operator of Weft's own library communicates by itself: a matmul that overlaps a collective. It is
/// complete when it returns. Its `group` is named like that of a collective.
bool names_group(const c10::OperatorHandle& op);

/// An instruction for such an operator, on the groups of the mesh. Creates its group.
std::unique_ptr<Instruction> make_group_call(
    const Node& node,
    std::vector<Source> arguments,
    OutputSlots outputs,
    const DeviceMesh& mesh);

/// Gives a value a second slot.
std::unique_ptr<Instruction> make_forward(Source source, uint32_t output);

} // namespace weft::graph
