#pragma once

#include "weft/comm/world/backend_channel.h"

namespace weft {

/// A group on a c10d backend's send and recv alone: all messages of a collective are posted at once, from and into the
/// tensors themselves where those are contiguous, with no padding for uneven pieces and no worker thread in between.
/// On gloo that is as fast as its own collectives or faster (bench/collectives), any dtype travels, and messages are
/// tagged by what they belong to, so that ranks that make different calls never take each other's data.
std::shared_ptr<Group> make_message_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<BackendChannel> channel);

} // namespace weft
