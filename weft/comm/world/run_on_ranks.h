#pragma once

#include "weft/comm/communicator.h"

#include <functional>

namespace weft {

struct RunOptions {
  /// How long a collective may take before it is an error.
  std::chrono::milliseconds timeout = default_timeout();
};

/// Runs `fn(rank)` on `size` ranks, each a thread of this process with a world of its own as current_world().
/// When a rank throws, the ranks that wait for it are released with an error; the first error is rethrown, with its rank.
///
///   run_on_ranks(4, [](int64_t rank) {
///     auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
///     ...
///   });
void run_on_ranks(int64_t size, const std::function<void(int64_t rank)>& fn, RunOptions options = {});

} // namespace weft
