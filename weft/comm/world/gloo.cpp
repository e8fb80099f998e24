#include "weft/comm/world/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <csignal>
#include <cstdlib>
#include <sstream>

namespace weft {

namespace {

/// Writing to a gloo socket whose peer is gone raises SIGPIPE. That must become an error of the call and must not kill
/// this rank, so the signal is ignored, as Python's interpreter does. A handler of the program is kept.
void ignore_broken_pipes() {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

} // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout) {
  using c10d::ProcessGroupGloo;
  ignore_broken_pipes();
  auto options = ProcessGroupGloo::Options::create(timeout);
  if (const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME")) {
    std::istringstream names(interfaces);
    for (std::string name; std::getline(names, name, ',');) {
      options->devices.push_back(ProcessGroupGloo::createDeviceForInterface(name));
    }
  } else {
    options->devices.push_back(ProcessGroupGloo::createDefaultDevice());
  }
  // Weft only sends and receives, which does not use the group's worker threads.
  options->threads = 1;
  return c10::make_intrusive<ProcessGroupGloo>(
      store, static_cast<int>(rank), static_cast<int>(size), std::move(options));
}

} // namespace weft
