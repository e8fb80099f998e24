#pragma once

#include "weft/comm/communicator.h"
#include "weft/comm/world/launch_environment.h"

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
/// The mesh uses this group along the dim, if its ranks are those along the dim, in their order. So do other meshes of the
/// world with a dim of that name and those ranks, such as sub-meshes, that have adopted none; of two the first counts. Meshes
/// that share a group are not independent of each other.
void adopt_group(const DeviceMesh& mesh, int64_t mesh_dim, const ExistingGroup& group);

/// How often the ranks of a group have been connected in such a world: no more than as many groups were held at once.
size_t connected_channels(Communicator& world);

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
