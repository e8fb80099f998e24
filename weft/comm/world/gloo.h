#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace weft {

/// A gloo group of `size` processes that meet in `store`. Raises if Weft was built without gloo. From then on the
/// process ignores SIGPIPE, unless it has a handler for it, so that a dead peer becomes an error and does not kill this
/// rank.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout);

} // namespace weft
