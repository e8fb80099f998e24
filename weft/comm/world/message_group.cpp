#include "weft/comm/world/message_group.h"

#include "weft/comm/scratch.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <map>

namespace weft {

namespace {

/// c10d's tags have 31 bits: whether it is a send or recv, whose calls are numbered apart, 14 bits of the call's
/// number, so that calls under way differ, and 16 bits of what it is.
int tag_of(const Call& call, const at::Tensor& message) {
  // The finalizer of splitmix64: every bit of the input changes about half of the bits that are kept.
  auto mixed = static_cast<uint64_t>(call.fingerprint()) << 32 ^ static_cast<uint64_t>(message.numel());
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return static_cast<int>((is_message(call.collective) ? 1U : 0U) << 30 | (call.sequence & 0x3fff) << 16 | mixed >> 48);
}

/// An exchange of pieces that are cut out of tensors must pack them. Large ones travel in parts of whole rows, so that
/// one part is on its way while the next is packed. Both sides cut alike, since they have the same shape.
std::vector<at::Tensor> parts_of(const Call& call, const at::Tensor& tensor) {
  constexpr int64_t kPartBytes = 2 << 20;
  if (call.collective != Collective::AllToAll || static_cast<int64_t>(tensor.nbytes()) <= 2 * kPartBytes) {
    return {tensor};
  }
  const auto row_bytes = static_cast<int64_t>(tensor.nbytes()) / tensor.size(0);
  return tensor.split(std::max<int64_t>(kPartBytes / row_bytes, 1), 0);
}

bool carries_data(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0;
}

class MessageGroup : public BackendGroup {
 public:
  using BackendGroup::BackendGroup;

 protected:
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
      for (const auto& part : parts_of(call, recvs[i])) {
        const bool in_place = part.is_contiguous();
        Message message{
            .peer = i,
            .incoming = true,
            .buffer = in_place ? part : scratch_.take(part.sizes(), part.options()),
            .target = in_place ? at::Tensor() : part,
            .work = {}};
        post(call, std::move(message), messages, [this](auto& buffers, int peer, int tag) {
          return channel_->backend(peer, rank()).recv(buffers, peer, tag);
        });
      }
    }
  }

  void post_sends(const Call& call, Tensors sends, std::vector<Message>& messages) {
    // A tensor that goes to several members is packed once. The tensors are held, so that addresses stay theirs.
    std::vector<at::Tensor> held;
    std::map<const c10::TensorImpl*, at::Tensor> packed;
    for (int64_t step = 1; step < size(); ++step) {
      // Everybody begins with its right neighbour, so that no member is sent to by all at once.
      const auto i = (rank() + step) % size();
      if (!carries_data(sends[i])) {
        continue;
      }
      for (const auto& part : parts_of(call, sends[i])) {
        auto& buffer = packed[part.unsafeGetTensorImpl()];
        if (!buffer.defined()) {
          held.push_back(part);
          buffer = pack(part);
        }
        Message message{.peer = i, .incoming = false, .buffer = buffer, .target = {}, .work = {}};
        post(call, std::move(message), messages, [this](auto& buffers, int peer, int tag) {
          return channel_->backend(rank(), peer).send(buffers, peer, tag);
        });
      }
    }
  }

  at::Tensor pack(const at::Tensor& tensor) {
    return tensor.is_contiguous() ? tensor : scratch_.take(tensor.sizes(), tensor.options()).copy_(tensor);
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

  Scratch scratch_;
};

} // namespace

std::shared_ptr<Group> make_message_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<BackendChannel> channel) {
  return std::make_shared<MessageGroup>(communicator, std::move(description), std::move(channel));
}

} // namespace weft
