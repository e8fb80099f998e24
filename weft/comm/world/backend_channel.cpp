#include "weft/comm/world/backend_channel.h"

#include "weft/comm/communicator.h"

namespace weft {

void* BackendChannel::attachment(const MakeAttachment& make) {
  const std::lock_guard lock(mutex_);
  if (!attachment_) {
    attachment_ = make(store_, backend_->getRank(), backend_->getSize());
  }
  return attachment_->get();
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
