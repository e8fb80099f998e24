#pragma once

#include "weft/comm/world/shared_memory_channel.h"

namespace weft {

/// A group whose members are processes of one host. Nothing is packed and no thread sends: a receiver copies from the
/// sender's memory into the output, and a reduction adds up the members' chunks while they are in its cache.
std::shared_ptr<Group> make_shared_memory_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<SharedMemoryChannel> channel);

} // namespace weft
