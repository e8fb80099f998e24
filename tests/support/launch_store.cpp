#include "tests/support/launch_store.h"

#include "weft/comm/world/c10d_world.h"
#include "weft/comm/world/launch_environment.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace weft::testing {

c10::intrusive_ptr<c10d::Store> launch_store() {
  const auto environment = read_launch_environment().value();
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(environment.master_port);
  options.isServer = environment.rank == 0;
  options.numWorkers = environment.world_size;
  options.timeout = default_timeout(); // also of connections: a rank must not look for minutes for a store that is gone
  return c10::make_intrusive<c10d::TCPStore>(environment.master_address, options);
}

void meet_in_store(c10d::Store& store, const std::string& place, int64_t rank, int64_t size) {
  const auto say = [&](const std::string& what) { store.set(what + std::to_string(rank), std::vector<uint8_t>{1}); };
  const auto hear = [&](const std::string& what, int64_t first) {
    for (int64_t r = first; r < size; ++r) {
      store.wait({what + std::to_string(r)}, std::chrono::minutes(1));
    }
  };
  const auto come = place + "/come/";
  const auto gone = place + "/gone/";
  say(come);
  hear(come, 0);
  if (rank > 0) {
    say(gone);
  } else {
    hear(gone, 1);
  }
}

c10::intrusive_ptr<Communicator> make_prompt_world(const c10::intrusive_ptr<c10d::Store>& store) {
  const auto environment = read_launch_environment().value();
  meet_in_store(*store, "start", environment.rank, environment.world_size);
  const auto own = c10::make_intrusive<c10d::PrefixStore>("prompt", store);
  return make_c10d_world(own, environment.rank, environment.world_size, default_timeout());
}

} // namespace weft::testing
