#include "weft/comm/world/current_world.h"

#include "weft/comm/world/c10d_world.h"
#include "weft/comm/world/launch_environment.h"
#include "weft/comm/world/thread_world.h"

#include <c10/core/Device.h>

namespace weft {

namespace {

thread_local c10::intrusive_ptr<Communicator> scoped_world;

c10::intrusive_ptr<Communicator> make_process_world() {
  if (const auto environment = read_launch_environment()) {
    return make_c10d_world(*environment);
  }
  return std::make_shared<ThreadHub>(1, default_timeout())->communicator(0);
}

} // namespace

c10::intrusive_ptr<Communicator> current_world() {
  if (scoped_world) {
    return scoped_world;
  }
  // Never destroyed, because its groups must not be destroyed after the libraries that they use.
  static auto* process_world = new c10::intrusive_ptr<Communicator>(make_process_world());
  return *process_world;
}

bool in_world_scope() {
  return scoped_world.defined();
}

WorldScope::WorldScope(c10::intrusive_ptr<Communicator> world)
    : outer_(std::exchange(scoped_world, std::move(world))) {}

WorldScope::~WorldScope() {
  scoped_world = std::move(outer_);
}

DeviceMesh init_device_mesh(std::string_view device_type, c10::IntArrayRef shape, std::vector<std::string> names) {
  return DeviceMesh(current_world(), c10::Device(std::string(device_type)).type(), shape, std::move(names));
}

} // namespace weft
