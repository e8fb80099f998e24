#include "weft/comm/c10d_world.h"

#include "weft/comm/gloo.h"
#include "weft/comm/message_group.h"
#include "weft/comm/native_group.h"
#include "weft/comm/nccl.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace weft {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

std::string join(const std::vector<int64_t>& ranks) {
  std::string text;
  for (const auto rank : ranks) {
    text += (text.empty() ? "" : ",") + std::to_string(rank);
  }
  return text;
}

/// Says in the store that this rank is here and waits for the others; raises with those that have not come.
void wait_for_arrival(
    const StorePtr& store,
    const std::string& what,
    const std::vector<int64_t>& ranks,
    int64_t rank,
    std::chrono::milliseconds timeout) {
  const auto key = [](int64_t r) { return "arrived/" + std::to_string(r); };
  std::vector<std::string> keys;
  for (const auto r : ranks) {
    keys.push_back(key(r));
  }
  std::string reason;
  try {
    store->set(key(rank), std::vector<uint8_t>{1});
    store->wait(keys, timeout);
    return;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  std::vector<int64_t> missing;
  std::string who;
  try {
    for (const auto r : ranks) {
      if (!store->check({key(r)})) {
        missing.push_back(r);
      }
    }
    who = "ranks " + join(missing) + " of " + join(ranks) + " have not arrived";
  } catch (const std::exception&) {
    who = "who of ranks " + join(ranks) + " has not arrived is unknown, because the rank that serves the store is gone";
  }
  TORCH_CHECK_WITH(
      DistBackendError, false, "[comm] ", what, " was not complete within ", timeout.count(), " ms on rank ", rank,
      ": ", who, " (", reason.substr(0, reason.find('\n')), "). Every rank must make this mesh and use it.");
}

class C10dCommunicator : public Communicator {
 public:
  C10dCommunicator(StorePtr store, int64_t rank, int64_t size, std::chrono::milliseconds timeout)
      : Communicator(rank, size, timeout), store_(std::move(store)) {}

  void adopt(const ExistingGroup& group, c10::DeviceType device_type) {
    channels_.try_emplace(
        {group.ranks, device_type},
        std::make_shared<BackendChannel>(store_of(group.ranks, device_type), group.backend));
  }

 protected:
  std::shared_ptr<Group> make_group(
      std::string label,
      std::vector<int64_t> ranks,
      int64_t rank_in_group,
      c10::DeviceType device_type) override {
    auto& channel = channels_[{ranks, device_type}];
    if (!channel) {
      channel = make_channel(label, ranks, rank_in_group, device_type);
    }
    const bool native = channel->backend().getBackendName() == "nccl";
    const auto make = native ? make_native_group : make_message_group;
    return make(*this, std::move(label), std::move(ranks), rank_in_group, channel);
  }

 private:
  StorePtr store_of(const std::vector<int64_t>& ranks, c10::DeviceType device_type) const {
    const auto name = c10::DeviceTypeName(device_type, /*lower_case=*/true);
    return c10::make_intrusive<c10d::PrefixStore>(name + "/" + join(ranks), store_);
  }

  std::shared_ptr<BackendChannel> make_channel(
      const std::string& label,
      const std::vector<int64_t>& ranks,
      int64_t rank_in_group,
      c10::DeviceType device_type) {
    const auto size = static_cast<int64_t>(ranks.size());
    const auto store = store_of(ranks, device_type);
    wait_for_arrival(store, "group " + label, ranks, rank(), timeout());
    try {
      if (device_type == c10::kCUDA) {
        return std::make_shared<BackendChannel>(store, make_nccl_backend(store, rank_in_group, size, timeout()));
      }
      const auto down_store = c10::make_intrusive<c10d::PrefixStore>("down", store);
      auto upward = make_gloo_backend(store, rank_in_group, size, timeout());
      auto downward = make_gloo_backend(down_store, rank_in_group, size, timeout());
      return std::make_shared<BackendChannel>(store, std::move(upward), std::move(downward));
    } catch (const c10::NotImplementedError&) {
      throw; // the backend is not built in, which says all
    } catch (const std::exception& error) {
      const std::string_view what(error.what());
      TORCH_CHECK_WITH(
          DistBackendError, false, "[comm] group ", label, " (ranks ", join(ranks), ") could not be connected on rank ",
          rank(), ": ", what.substr(0, what.find('\n')),
          ". A rank has died or is stuck: look at the first error of the other ranks.");
    }
  }

  StorePtr store_;
  std::map<std::pair<std::vector<int64_t>, c10::DeviceType>, std::shared_ptr<BackendChannel>> channels_;
};

/// A store that this rank serves lives as long as the process: when the world cannot be made here, the other ranks
/// still ask it who has not come.
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
  wait_for_arrival(store, "the world", ranks, rank, timeout);
  return c10::make_intrusive<C10dCommunicator>(std::move(store), rank, size, timeout);
}

c10::intrusive_ptr<Communicator> join_c10d_world(
    StorePtr store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout) {
  return c10::make_intrusive<C10dCommunicator>(std::move(store), rank, size, timeout);
}

void adopt_group(Communicator& world, const ExistingGroup& group, c10::DeviceType device_type) {
  auto* c10d_world = dynamic_cast<C10dCommunicator*>(&world);
  TORCH_CHECK_TYPE(c10d_world != nullptr, "[adopt_group] a world of processes is required, but got ranks as threads.");
  c10d_world->adopt(group, device_type);
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
        " must have ranks ", join(mesh.ranks_along(m)), " on rank ", rank, ", but got ", join(group.ranks), ".");
    adopt_group(*world, group, device_type);
  }
  return mesh;
}

} // namespace weft
