#pragma once

#include "weft/comm/world/backend_channel.h"

namespace weft {

/// A group that uses the collectives of a c10d backend: for NCCL, whose collectives run on the device's streams. A wait
/// orders the current stream after them and does not block the host.
std::shared_ptr<Group> make_native_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<BackendChannel> channel);

} // namespace weft
