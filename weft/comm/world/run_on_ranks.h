#pragma once

#include "weft/comm/communicator.h"

#include <functional>

namespace weft {

struct RunOptions {
  /// The time that a collective may take before it raises an error.
  std::chrono::milliseconds timeout = default_timeout();
};

/// Runs `fn(rank)` on `size` ranks. Each rank is a thread of this process and has its own current_world(). If a rank
/// throws, the ranks that wait for it get an error; the first error is rethrown with its rank.
///
///   run_on_ranks(4, [](int64_t rank) {
///     auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
///     ...
///   });
void run_on_ranks(int64_t size, const std::function<void(int64_t rank)>& fn, RunOptions options = {});

} // namespace weft
