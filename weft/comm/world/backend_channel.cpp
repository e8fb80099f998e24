#include "weft/comm/world/backend_channel.h"

#include "weft/comm/communicator.h"

#include <c10/util/Exception.h>

namespace weft {

uint64_t BackendChannel::next_message(Collective direction, int64_t peer) {
  const std::lock_guard lock(mutex_);
  return messages_[{direction, peer}]++;
}

BackendChannel::Counters BackendChannel::counters() const {
  const std::lock_guard lock(mutex_);
  Counters result{.calls = calls_};
  for (const auto& [message, count] : messages_) {
    (message.first == Collective::Send ? result.sent : result.received) += count;
  }
  return result;
}

void* BackendChannel::attachment(const MakeAttachment& make) {
  const std::lock_guard lock(mutex_);
  if (!attachment_) {
    attachment_ = make(store_, backend_->getRank(), backend_->getSize());
  }
  return attachment_->get();
}

void BackendChannel::fail(const Group& group, const Call& call, std::string_view what) {
  first_failure_.fail(
      group, call, what, "A rank has died, is stuck, or made another call: look at the first error of the other ranks");
}

std::chrono::milliseconds BackendGroup::timeout() const {
  return communicator_.timeout();
}

void BackendGroup::log(Collective collective, const at::Tensor& input, int64_t received_bytes) {
  const Call call = {
      .collective = collective,
      .dtype = input.scalar_type(),
      .sizes = c10::DimVector(input.sizes()),
      .sequence = next_sequence()};
  communicator_.log_call(call, *this, received_bytes);
}

} // namespace weft
