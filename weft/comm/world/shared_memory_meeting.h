#pragma once

#include "weft/comm/world/shared_memory_channel.h"
#include "weft/comm/world/store_meeting.h"

namespace weft {

/// Whether WEFT_SHARED_MEMORY allows it: "1", the default, or "0", which leaves the ranks of a host to gloo.
bool may_share_memory();

/// Connects the members of a group if all of them are processes of one host that may map each other's memory; otherwise the
/// result is nullptr on all of them. All members make this call; `store` is used by this call only, `rank` is this member's
/// index.
std::shared_ptr<SharedMemoryChannel> connect_by_shared_memory(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    int64_t rank,
    std::chrono::milliseconds timeout);

} // namespace weft
