#include "weft/comm/world/c10d_world.h"

#include "weft/comm/world/channel_pool.h"
#include "weft/comm/world/freed_memory.h"
#include "weft/comm/world/message_group.h"
#include "weft/comm/world/native_group.h"
#include "weft/comm/world/shared_memory_group.h"
#include "weft/comm/world/store_meeting.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace weft {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

class C10dCommunicator : public Communicator {
 public:
  C10dCommunicator(StorePtr store, int64_t rank, int64_t size, std::chrono::milliseconds timeout)
      : Communicator(rank, size, timeout), channels_(std::move(store), rank, timeout) {
    keep_freed_memory();
  }

  ChannelPool& channels() {
    return channels_;
  }
  void adopt(const GroupDescription& description, const c10::intrusive_ptr<c10d::Backend>& backend) {
    channels_.adopt(description, backend);
    if (backend && backend->getBackendName() == "fake") {
      is_fake_ = true;
    }
  }
  bool is_fake() const {
    return is_fake_;
  }

 protected:
  std::shared_ptr<Group> make_group(GroupDescription description) override {
    const auto channel = channels_.channel(description);
    if (auto shared = std::dynamic_pointer_cast<SharedMemoryChannel>(channel)) {
      return make_shared_memory_group(*this, std::move(description), std::move(shared));
    }
    auto backend = std::static_pointer_cast<BackendChannel>(channel);
    const bool native = backend->backend().getBackendName() == "nccl";
    const auto make = native ? make_native_group : make_message_group;
    return make(*this, std::move(description), std::move(backend));
  }

 private:
  ChannelPool channels_;
  std::atomic<bool> is_fake_ = false;
};

C10dCommunicator& c10d_world(const char* where, Communicator& world) {
  auto* result = dynamic_cast<C10dCommunicator*>(&world);
  TORCH_CHECK_TYPE(result != nullptr, "[", where, "] a world of processes is required, but got another kind.");
  return *result;
}

/// Keeps a store that this rank serves alive until the process ends: if the world cannot be made on this rank, the
/// other ranks still read from the store which ranks have not arrived.
void keep_for_good(StorePtr store) {
  static auto* mutex = new std::mutex();
  static auto* kept = new std::vector<StorePtr>();
  const std::lock_guard lock(*mutex);
  kept->push_back(std::move(store));
}

StorePtr connect(const LaunchEnvironment& environment, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(environment.master_port);
  options.isServer = environment.rank == 0 && !environment.launcher_serves_store;
  options.numWorkers = environment.world_size;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_address, options);
    if (options.isServer) {
      keep_for_good(store);
    }
    return store;
  } catch (const std::exception& error) {
    const std::string_view what(error.what());
    TORCH_CHECK_WITH(
        DistBackendError, false, "[comm] rank ", environment.rank, " of ", environment.world_size,
        options.isServer ? " could not serve" : " could not reach", " the store at ", environment.master_address, ":",
        environment.master_port, ": ", what.substr(0, what.find('\n')),
        ". Check MASTER_ADDR and MASTER_PORT, and that rank 0 has started.");
  }
}

} // namespace

c10::intrusive_ptr<Communicator> make_c10d_world(const LaunchEnvironment& environment) {
  const auto timeout = default_timeout();
  auto store = connect(environment, timeout);
  auto own = c10::make_intrusive<c10d::PrefixStore>("weft/" + std::to_string(environment.attempt), std::move(store));
  return make_c10d_world(std::move(own), environment.rank, environment.world_size, timeout);
}

c10::intrusive_ptr<Communicator> make_c10d_world(
    StorePtr store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout) {
  std::vector<int64_t> ranks(size);
  for (int64_t r = 0; r < size; ++r) {
    ranks[r] = r;
  }
  StoreMeeting{store, ranks, rank, timeout}.arrive("the world", "here");
  return c10::make_intrusive<C10dCommunicator>(std::move(store), rank, size, timeout);
}

c10::intrusive_ptr<Communicator> join_c10d_world(
    StorePtr store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout) {
  return c10::make_intrusive<C10dCommunicator>(std::move(store), rank, size, timeout);
}

void adopt_group(const DeviceMesh& mesh, int64_t mesh_dim, const ExistingGroup& group) {
  auto& world = c10d_world("adopt_group", Communicator::of(mesh));
  const auto description = describe_group(mesh, mesh_dim);
  if (group.ranks == description.ranks) {
    world.adopt(description, group.backend);
  }
}

bool has_fake_groups(const World& world) {
  const auto* processes = dynamic_cast<const C10dCommunicator*>(&world);
  return processes != nullptr && processes->is_fake();
}

size_t connected_channels(Communicator& world) {
  return c10d_world("connected_channels", world).channels().size();
}

DeviceMesh mesh_from_groups(
    c10::DeviceType device_type,
    c10::ArrayRef<ExistingGroup> groups,
    c10::IntArrayRef shape,
    c10::IntArrayRef ranks,
    std::vector<std::string> names,
    StorePtr store,
    int64_t rank,
    int64_t world_size) {
  TORCH_CHECK_VALUE(
      groups.size() == shape.size(), "[mesh_from_groups] one group per mesh dim is required, but got ", groups.size(),
      " groups for shape ", shape, ".");
  const auto world = join_c10d_world(std::move(store), rank, world_size, default_timeout());
  const DeviceMesh mesh(world, device_type, shape, ranks, std::move(names));
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    const auto& group = groups[m];
    TORCH_CHECK_VALUE(
        group.ranks == mesh.ranks_along(m), "[mesh_from_groups] the group of mesh dim ", mesh.name(m), " of ", mesh,
        " must have ranks ", join_ranks(mesh.ranks_along(m)), " on rank ", rank, ", but got ", join_ranks(group.ranks),
        ".");
    adopt_group(mesh, m, group);
  }
  return mesh;
}

} // namespace weft
