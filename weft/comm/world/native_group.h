#pragma once

#include "weft/comm/world/backend_channel.h"

namespace weft {

/// A group on a c10d backend's own collectives: for NCCL, whose collectives run on the device's streams. Waiting orders
/// the current stream behind them and does not block the host.
std::shared_ptr<Group> make_native_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<BackendChannel> channel);

} // namespace weft
