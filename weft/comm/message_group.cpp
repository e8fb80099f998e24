#include "weft/comm/message_group.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/util/hash.h>

namespace weft {

namespace {

/// c10d's tags have 31 bits: 15 of the call's number, so that calls under way differ, and 16 of what it is.
int tag_of(const Call& call, const at::Tensor& message) {
  const auto fingerprint = c10::get_hash(call.fingerprint(), message.numel());
  const auto folded = (fingerprint ^ (fingerprint >> 16) ^ (fingerprint >> 32) ^ (fingerprint >> 48)) & 0xffff;
  return static_cast<int>(((call.sequence & 0x7fff) << 16) | folded);
}

bool carries_data(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0;
}

class MessageGroup : public Group {
 public:
  MessageGroup(
      Communicator& communicator,
      std::string label,
      std::vector<int64_t> ranks,
      int64_t rank,
      std::shared_ptr<BackendChannel> channel)
      : Group(communicator, std::move(label), std::move(ranks), rank), channel_(std::move(channel)) {}

 protected:
  uint64_t next_sequence() override {
    return channel_->next_sequence();
  }
  uint64_t next_message(Collective direction, int64_t peer) override {
    return channel_->next_message(direction, peer);
  }

  Pending do_exchange(const Call& call, Tensors sends, Tensors recvs) override {
    channel_->check_usable(*this, call);
    auto messages = std::make_shared<std::vector<Message>>();
    post_receives(call, recvs, *messages);
    post_sends(call, sends, *messages);
    return Pending([this, self = shared_from_this(), call, messages] { finish(call, *messages); });
  }

 private:
  struct Message {
    int64_t peer;
    bool incoming;
    at::Tensor buffer;
    at::Tensor target; // where a received buffer is copied to, unless it arrived in place
    c10::intrusive_ptr<c10d::Work> work;
  };

  std::string describe(const Message& message, const std::exception& error) const {
    const std::string_view what(error.what());
    return c10::str(
        message.incoming ? "receiving from rank " : "sending to rank ", ranks()[message.peer], ": ",
        what.substr(0, what.find('\n')));
  }

  template <class Start>
  void post(const Call& call, Message message, std::vector<Message>& messages, Start start) {
    try {
      std::vector<at::Tensor> buffers = {message.buffer};
      message.work = start(buffers, static_cast<int>(message.peer), tag_of(call, message.buffer));
    } catch (const std::exception& error) {
      channel_->fail(*this, call, describe(message, error));
    }
    messages.push_back(std::move(message));
  }

  void post_receives(const Call& call, Tensors recvs, std::vector<Message>& messages) {
    for (int64_t i = 0; i < size(); ++i) {
      if (i == rank() || !carries_data(recvs[i])) {
        continue;
      }
      const bool in_place = recvs[i].is_contiguous();
      Message message{
          .peer = i,
          .incoming = true,
          .buffer = in_place ? recvs[i] : at::empty(recvs[i].sizes(), recvs[i].options()),
          .target = in_place ? at::Tensor() : recvs[i],
          .work = {}};
      post(call, std::move(message), messages, [this](auto& buffers, int peer, int tag) {
        return channel_->backend().recv(buffers, peer, tag);
      });
    }
  }

  void post_sends(const Call& call, Tensors sends, std::vector<Message>& messages) {
    at::Tensor packed;
    for (int64_t step = 1; step < size(); ++step) {
      // Everybody begins with its right neighbour, so that no member is sent to by all at once.
      const auto i = (rank() + step) % size();
      if (!carries_data(sends[i])) {
        continue;
      }
      const auto& previous = sends[(rank() + step - 1) % size()];
      if (!packed.defined() || !sends[i].is_same(previous)) {
        packed = sends[i].contiguous();
      }
      Message message{.peer = i, .incoming = false, .buffer = packed, .target = {}, .work = {}};
      post(call, std::move(message), messages, [this](auto& buffers, int peer, int tag) {
        return channel_->backend().send(buffers, peer, tag);
      });
    }
  }

  void finish(const Call& call, std::vector<Message>& messages) {
    at::AutoDispatchBelowADInplaceOrView guard;
    for (auto& message : messages) {
      try {
        message.work->wait();
      } catch (const std::exception& error) {
        channel_->fail(*this, call, describe(message, error));
      }
      if (message.target.defined()) {
        message.target.copy_(message.buffer);
      }
    }
  }

  std::shared_ptr<BackendChannel> channel_;
};

} // namespace

std::shared_ptr<Group> make_message_group(
    Communicator& communicator,
    std::string label,
    std::vector<int64_t> ranks,
    int64_t rank,
    std::shared_ptr<BackendChannel> channel) {
  return std::make_shared<MessageGroup>(communicator, std::move(label), std::move(ranks), rank, std::move(channel));
}

} // namespace weft
