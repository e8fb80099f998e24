#include "weft/comm/world/message_group.h"

#include "weft/comm/scratch.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <map>

namespace weft {

namespace {

/// The 31 bits of c10d's tags: whether it is a send or recv (these have sequence numbers of their own), 14 bits of the
/// sequence number, which distinguish calls under way, and 16 bits of the call's fingerprint.
int tag_of(const Call& call, const at::Tensor& message) {
  // The finalizer of splitmix64: every bit of the input flips about half of the bits that are kept.
  // Spread over all bits: no size may undo the difference of two fingerprints.
  auto mixed = call.fingerprint() * 0x9e3779b97f4a7c15 ^ static_cast<uint64_t>(message.numel());
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return static_cast<int>((is_message(call.collective) ? 1U : 0U) << 30 | (call.sequence & 0x3fff) << 16 | mixed >> 48);
}

/// An exchange of non-contiguous slices must pack them. A large slice is sent in chunks of complete rows, so that one
/// chunk is on its way while the next is packed. Sender and receiver compute the same chunks, because both have the
/// same shape.
std::vector<at::Tensor> row_chunks(const Call& call, const at::Tensor& tensor) {
  constexpr int64_t kChunkBytes = 2 << 20;
  if (call.collective != Collective::AllToAll || static_cast<int64_t>(tensor.nbytes()) <= 2 * kChunkBytes) {
    return {tensor};
  }
  const auto row_bytes = static_cast<int64_t>(tensor.nbytes()) / tensor.size(0);
  return tensor.split(std::max<int64_t>(kChunkBytes / row_bytes, 1), 0);
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
    at::Tensor target; // the copy target of a received buffer, unless it was received in place
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
      for (const auto& chunk : row_chunks(call, recvs[i])) {
        const bool in_place = chunk.is_contiguous();
        Message message{
            .peer = i,
            .incoming = true,
            .buffer = in_place ? chunk : scratch_.take(chunk.sizes(), chunk.options()),
            .target = in_place ? at::Tensor() : chunk,
            .work = {}};
        post(call, std::move(message), messages, [this](auto& buffers, int peer, int tag) {
          return channel_->backend(peer, rank()).recv(buffers, peer, tag);
        });
      }
    }
  }

  void post_sends(const Call& call, Tensors sends, std::vector<Message>& messages) {
    // A tensor that goes to several members is packed once. `held` keeps the tensors alive, so that their addresses
    // stay unique.
    std::vector<at::Tensor> held;
    std::map<const c10::TensorImpl*, at::Tensor> packed;
    for (int64_t step = 1; step < size(); ++step) {
      // Every member sends to its right neighbour first, so that the members do not all send to one member at once.
      const auto i = (rank() + step) % size();
      if (!carries_data(sends[i])) {
        continue;
      }
      for (const auto& chunk : row_chunks(call, sends[i])) {
        auto& buffer = packed[chunk.unsafeGetTensorImpl()];
        if (!buffer.defined()) {
          held.push_back(chunk);
          buffer = pack(chunk);
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
