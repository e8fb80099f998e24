#include "weft/comm/world/shared_memory_group.h"

#include "weft/comm/reduce_terms.h"
#include "weft/comm/scratch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

namespace weft {

namespace {

/// Terms that must be read, and sums of more than two terms, are added in chunks of this size, which stay in the core's
/// cache.
constexpr int64_t kReducedBytes = 256 * 1024;

bool has_elements(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0;
}

class SharedMemoryGroup : public ChannelGroup {
 public:
  SharedMemoryGroup(
      Communicator& communicator,
      GroupDescription description,
      std::shared_ptr<SharedMemoryChannel> channel)
      : ChannelGroup(communicator, std::move(description), *channel), channel_(std::move(channel)) {}

 protected:
  Pending do_exchange(const Call& call, Tensors sends, Tensors recvs) override {
    auto sendings = send(call, sends);
    std::vector<Receive> receives;
    for (int64_t i = 0; i < size(); ++i) {
      if (i != rank() && has_elements(recvs[i])) {
        receives.push_back({.from = i, .target = recvs[i], .arrival = {}});
      }
    }
    return Pending([this, self = shared_from_this(), call, sendings, receives = std::move(receives)]() mutable {
      at::AutoDispatchBelowADInplaceOrView guard;
      await(call, receives, [this](Receive& receive) { copy(receive); });
      settle(call, sendings);
    });
  }

  Pending do_reduce_scatter(const Call& call, Tensors inputs, const at::Tensor& output) override {
    auto sendings = send(call, inputs);
    std::vector<Receive> terms;
    for (int64_t i = 0; i < size() && has_elements(output); ++i) {
      if (i != rank()) {
        terms.push_back({.from = i, .target = output, .arrival = {}});
      }
    }
    return Pending([this, self = shared_from_this(), call, sendings, own = inputs[rank()], output,
                    terms = std::move(terms)]() mutable {
      at::AutoDispatchBelowADInplaceOrView guard;
      await(call, terms, [](Receive&) {});
      reduce(call, own, terms, output);
      settle(call, sendings);
    });
  }

 private:
  using Sendings = std::vector<std::shared_ptr<SharedMemoryChannel::Sending>>;
  struct Receive {
    int64_t from;
    at::Tensor target;
    std::optional<Arrival> arrival;
  };

  /// Runs `step`, which communicates with a member; an error of the channel becomes one of the call.
  template <class Step>
  auto of_member(const Call& call, const char* what, int64_t member, const Step& step) {
    try {
      return step();
    } catch (const std::runtime_error& error) {
      channel_->fail(*this, call, c10::str(what, ranks()[member], ": ", error.what()));
    }
  }

  Sendings send(const Call& call, Tensors tensors) {
    channel_->check_usable(*this, call);
    Sendings sendings;
    // A tensor that goes to several members is prepared once.
    std::vector<std::pair<const c10::TensorImpl*, SharedMemoryChannel::Sending*>> prepared;
    for (int64_t step = 1; step < size(); ++step) {
      // Every member sends to its right neighbour first, so that the members do not all read from one member at once.
      const auto to = (rank() + step) % size();
      const auto& tensor = tensors[to];
      if (!has_elements(tensor)) {
        continue;
      }
      of_member(call, "sending to rank ", to, [&] {
        auto known = std::find_if(prepared.begin(), prepared.end(), [&](const auto& one) {
          return one.first == tensor.unsafeGetTensorImpl();
        });
        if (known == prepared.end()) {
          sendings.push_back(channel_->prepare(tensor));
          known = prepared.insert(known, {tensor.unsafeGetTensorImpl(), sendings.back().get()});
        }
        channel_->post(call, *known->second, to);
      });
    }
    return sendings;
  }

  /// Waits for all messages, and uses each as it arrives.
  template <class Use>
  void await(const Call& call, std::vector<Receive>& receives, const Use& use) {
    const auto missing = [&] {
      return std::find_if(receives.begin(), receives.end(), [](const Receive& one) { return !one.arrival; });
    };
    const bool all_came = channel_->wait([&](bool looks) {
      for (auto& receive : receives) {
        if (receive.arrival) {
          continue;
        }
        of_member(call, "receiving from rank ", receive.from, [&] {
          receive.arrival = channel_->receive(call, receive.from, receive.target.nbytes(), looks);
          if (receive.arrival) {
            use(receive);
          }
        });
      }
      return missing() == receives.end();
    });
    if (!all_came) {
      const auto from = missing()->from;
      channel_->fail(
          *this, call, c10::str("receiving from rank ", ranks()[from], ": ", channel_->describe_missing(from)));
    }
  }

  void copy(Receive& receive) {
    const auto& [from, target, arrival] = receive;
    const auto bytes = target.nbytes();
    if (target.is_contiguous() && !target.is_conj() && !target.is_neg()) {
      arrival->read(target.mutable_data_ptr(), 0, bytes);
    } else if (const auto* data = arrival->mapped()) {
      target.copy_(at::from_blob(const_cast<char*>(data), target.sizes(), target.options()));
    } else {
      const auto buffer = scratch_.take(target.sizes(), target.options());
      arrival->read(buffer.mutable_data_ptr(), 0, bytes);
      target.copy_(buffer);
    }
    arrival->finish();
  }

  /// Reduces the members' terms in the order of the members.
  void reduce(const Call& call, const at::Tensor& own, std::vector<Receive>& receives, const at::Tensor& output) {
    if (receives.empty()) {
      return;
    }
    const bool in_place = output.is_contiguous() && !output.is_conj() && !output.is_neg();
    const auto result = in_place ? output : at::empty(output.sizes(), output.options());
    const auto flat_result = result.view({-1});
    const auto flat_own = own.reshape({-1});
    const auto item = static_cast<int64_t>(output.element_size());
    const bool are_mapped = std::all_of(
        receives.begin(), receives.end(), [](const Receive& one) { return one.arrival->mapped() != nullptr; });
    const auto step =
        are_mapped && receives.size() == 1 ? output.numel() : std::min(kReducedBytes / item, output.numel());
    const auto buffers = are_mapped ? at::Tensor() : scratch_.take({size(), step}, output.options());
    for (int64_t begin = 0; begin < output.numel(); begin += step) {
      const auto length = std::min(step, output.numel() - begin);
      std::vector<at::Tensor> terms(size());
      terms[rank()] = flat_own.narrow(0, begin, length);
      for (auto& receive : receives) {
        terms[receive.from] = of_member(call, "receiving from rank ", receive.from, [&] {
          if (const auto* data = receive.arrival->mapped()) {
            return at::from_blob(const_cast<char*>(data) + begin * item, {length}, output.options());
          }
          auto chunk = buffers[receive.from].narrow(0, 0, length);
          receive.arrival->read(chunk.mutable_data_ptr(), begin * item, length * item);
          return chunk;
        });
      }
      reduce_terms(flat_result.narrow(0, begin, length), terms, call.op);
    }
    for (auto& receive : receives) {
      of_member(call, "receiving from rank ", receive.from, [&] { receive.arrival->finish(); });
    }
    if (!in_place) {
      output.copy_(result);
    }
  }

  void settle(const Call& call, const Sendings& sendings) {
    for (const auto& sending : sendings) {
      try {
        channel_->settle(*sending);
      } catch (const std::runtime_error& error) {
        channel_->fail(*this, call, c10::str("sending to the other ranks: ", error.what()));
      }
    }
  }

  std::shared_ptr<SharedMemoryChannel> channel_;
  Scratch scratch_;
};

} // namespace

std::shared_ptr<Group> make_shared_memory_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<SharedMemoryChannel> channel) {
  return std::make_shared<SharedMemoryGroup>(communicator, std::move(description), std::move(channel));
}

} // namespace weft
