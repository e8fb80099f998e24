#pragma once

#include "weft/comm/world/backend_channel.h"

namespace weft {

/// A group that uses only send and recv of a c10d backend. All messages of a collective are posted at once, directly
/// from and into contiguous tensors, without padding for uneven sizes and without a worker thread. On gloo this is at
/// least as fast as gloo's own collectives (bench/collectives) and supports every dtype. Messages are tagged by their
/// call, so that ranks that make different calls never exchange each other's data.
std::shared_ptr<Group> make_message_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<BackendChannel> channel);

} // namespace weft
