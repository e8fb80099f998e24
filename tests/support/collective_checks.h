#pragma once

#include "weft/core/device_mesh.h"

namespace weft::testing {

/// What every backend must do, written once: each check runs on all ranks of the mesh, over every mesh dim and over all
/// of them as one, compares with what one process computes, and raises where that differs.

/// Every collective, for every dtype, with even, uneven and empty chunks, contiguous inputs and others.
void check_collective_values(const DeviceMesh& mesh);

/// all_reduce of float data, small and large: the same bits on every rank, those of adding up in the ranks' order.
void check_all_reduce_bits(const DeviceMesh& mesh);

/// Operations started in one order and waited for in another one on every rank, or never.
void check_wait_orders(const DeviceMesh& mesh);

/// Calls and bytes that a CommLog counts, per collective, mesh dims and operator.
void check_comm_log(const DeviceMesh& mesh);

/// A group is made when it is first used, and once.
void check_lazy_groups(const DeviceMesh& mesh);

/// All of the above.
void check_all(const DeviceMesh& mesh);

} // namespace weft::testing
