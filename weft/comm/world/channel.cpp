#include "weft/comm/world/channel.h"

#include <c10/util/Exception.h>

namespace weft {

uint64_t Channel::next_message(Collective direction, int64_t peer) {
  const std::lock_guard lock(mutex_);
  return messages_[{direction, peer}]++;
}

Channel::Counters Channel::counters() const {
  const std::lock_guard lock(mutex_);
  Counters result{.calls = calls_};
  for (const auto& [message, count] : messages_) {
    (message.first == Collective::Send ? result.sent : result.received) += count;
  }
  return result;
}

void Channel::fail(const Group& group, const Call& call, std::string_view what) {
  if (!has_failed()) {
    tell_failure(what);
  }
  first_failure_.fail(
      group, call, what, "A rank has died, is stuck, or made another call: look at the first error of the other ranks");
}

} // namespace weft
