#pragma once

#include "weft/comm/communicator.h"
#include "weft/comm/world/launch_environment.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace weft {

/// A world whose ranks are processes that meet through a store: gloo connects CPUs, NCCL connects CUDA devices. Waits
/// until every rank has arrived, or raises with the ranks that have not.
c10::intrusive_ptr<Communicator> make_c10d_world(const LaunchEnvironment& environment);
c10::intrusive_ptr<Communicator> make_c10d_world(
    c10::intrusive_ptr<c10d::Store> store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout);

/// A group that exists already, and its members as ranks of the world, in member order.
struct ExistingGroup {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::vector<int64_t> ranks;
};

/// As make_c10d_world, for ranks that have met already: it does not wait for other ranks.
c10::intrusive_ptr<Communicator> join_c10d_world(
    c10::intrusive_ptr<c10d::Store> store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout);
/// Makes the mesh use this group along the mesh dim, if the group's ranks are those along the dim, in the same order.
/// Other meshes of the world that have a dim of that name with those ranks, such as sub-meshes, use it too unless they
/// have adopted a group themselves; the first adopted group is used. Meshes that share a group are not independent.
void adopt_group(const DeviceMesh& mesh, int64_t mesh_dim, const ExistingGroup& group);

/// Whether a group of torch's backend "fake" was adopted: the other ranks of such a world do not exist.
bool has_fake_groups(const World& world);

/// The number of connections made between the ranks of a group in such a world: at most the number of groups that were
/// held at the same time.
size_t connected_channels(Communicator& world);

/// A mesh on existing groups, one per mesh dim, each containing this rank. Groups over several dims are made through
/// the store when first used. `ranks` is the full array of ranks, row-major.
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
