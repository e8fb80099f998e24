#pragma once

#include "weft/comm/communicator.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace weft::testing {

/// In a role: the store that the environment names, served by rank 0.
c10::intrusive_ptr<c10d::Store> launch_store();

/// In a role: returns when all `size` ranks have come to this place of the store. Rank 0, which serves it, is the last to
/// leave, so that the store is still there for ranks that wait.
void meet_in_store(c10d::Store& store, const std::string& place, int64_t rank, int64_t size);

/// In a role: a world that all ranks begin to make at the same time, so that a short timeout is not spent on the start
/// of their processes.
c10::intrusive_ptr<Communicator> make_prompt_world(const c10::intrusive_ptr<c10d::Store>& store = launch_store());

} // namespace weft::testing
