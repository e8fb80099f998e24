#include "weft/comm/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>
#include <sstream>

namespace weft {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout) {
  using c10d::ProcessGroupGloo;
  auto options = ProcessGroupGloo::Options::create(timeout);
  if (const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME")) {
    std::istringstream names(interfaces);
    for (std::string name; std::getline(names, name, ',');) {
      options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(name));
    }
  } else {
    options->devices.push_back(ProcessGroupGloo::createDefaultDevice());
  }
  // Weft only sends and receives, which needs none of the group's worker threads.
  options->threads = 1;
  return c10::make_intrusive<ProcessGroupGloo>(
      store, static_cast<int>(rank), static_cast<int>(size), std::move(options));
}

} // namespace weft
