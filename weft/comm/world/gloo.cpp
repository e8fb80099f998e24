#include "weft/comm/world/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <cstdlib>
#include <sstream>

namespace weft {

namespace {

/// gloo writes to its sockets in a way that raises SIGPIPE where the other side is gone. That must be an error of the
/// call and not the end of this rank; Python's interpreter ignores the signal anyway. The program's own handler stays.
void ignore_broken_pipes() {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

} // namespace

namespace {

/// Threads that are started while it lasts do not preempt others when they wake. gloo's loop thread spins while another
/// thread holds a connection's lock; were it to take that very thread's core, both would stand still for a time slice.
class BatchThreads {
 public:
  BatchThreads() {
    pthread_getschedparam(pthread_self(), &policy_, &parameters_);
    if (policy_ == SCHED_OTHER) {
      pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters_);
    }
  }
  ~BatchThreads() {
    pthread_setschedparam(pthread_self(), policy_, &parameters_);
  }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  int policy_ = SCHED_OTHER;
  sched_param parameters_ = {};
};

} // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout) {
  using c10d::ProcessGroupGloo;
  ignore_broken_pipes();
  const BatchThreads batch_threads;
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
