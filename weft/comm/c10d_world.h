#pragma once

#include "weft/comm/communicator.h"
#include "weft/comm/launch_environment.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace weft {

/// Ranks that are processes, meeting through a store: gloo between CPUs, NCCL between CUDA devices.
/// Waits until every rank has arrived, or raises with the ranks that have not.
c10::intrusive_ptr<Communicator> make_c10d_world(const LaunchEnvironment& environment);
c10::intrusive_ptr<Communicator> make_c10d_world(
    c10::intrusive_ptr<c10d::Store> store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout);

/// A group that exists already, and the ranks of the world that are in it, in its order.
struct ExistingGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::vector<int64_t> ranks;
};

/// As make_c10d_world, of ranks that have met already: waits for nobody.
c10::intrusive_ptr<Communicator> join_c10d_world(
    c10::intrusive_ptr<c10d::Store> store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout);
/// Such a world uses this group where it would make one of the same ranks; of two such groups the first counts.
void adopt_group(Communicator& world, const ExistingGroup& group, c10::DeviceType device_type);

/// A mesh whose dims stand on existing groups, one per dim, each containing this rank; groups over several dims are made
/// through the store when first used. `ranks` is the whole rank array, row-major.
DeviceMesh mesh_from_groups(
    c10::DeviceType device_type,
    c10::ArrayRef<ExistingGroup> groups,
    c10::IntArrayRef shape,
    c10::IntArrayRef ranks,
    std::vector<std::string> names,
    c10::intrusive_ptr<c10d::Store> store,
    int64_t rank,
    int64_t world_size);

} // namespace weft
