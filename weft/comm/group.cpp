#include "weft/comm/group.h"

#include "weft/comm/chunk_views.h"
#include "weft/comm/communication_scope.h"
#include "weft/comm/communicator.h"
#include "weft/comm/reduce_terms.h"
#include "weft/comm/subject_scope.h"
#include "weft/core/dtype_text.h"
#include "weft/core/traced_tensor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>

#include <cstring>
#include <numeric>

namespace weft {

namespace {

/// An all_reduce in one round receives all data from every member; two rounds receive less but wait twice. One round is
/// used up to kOneRoundBytes, as long as it receives at most kMostExtraBytes more than two rounds. Measured by
/// bench/collectives.
constexpr int64_t kOneRoundBytes = 512 * 1024;
constexpr int64_t kMostExtraBytes = 192 * 1024;

int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<int64_t>(tensor.nbytes()) : 0;
}

at::Tensor first_defined(Tensors sends, Tensors recvs) {
  for (const auto tensors : {sends, recvs}) {
    for (const auto& tensor : tensors) {
      if (tensor.defined()) {
        return tensor;
      }
    }
  }
  return {};
}

std::vector<at::Tensor> flat_chunks(const at::Tensor& tensor, int64_t count) {
  return chunk_views(tensor.reshape({-1}), count, /*dim=*/0);
}

/// Copies a member's input to its place in the output: `begin` along a dim before which all dims have one element. For
/// plain numbers on the CPU a memcpy is used, because the dispatcher would cost more than the copy.
void copy_into(const at::Tensor& input, const at::Tensor& output, int64_t dim, int64_t begin) {
  if (input.numel() == 0) {
    return;
  }
  if (input.is_cpu() && input.is_contiguous() && !input.is_conj() && !input.is_neg()) {
    const auto offset = begin * output.stride(dim) * static_cast<int64_t>(output.element_size());
    std::memcpy(static_cast<char*>(output.mutable_data_ptr()) + offset, input.const_data_ptr(), input.nbytes());
  } else {
    output.narrow(dim, begin, input.size(dim)).copy_(input);
  }
}

/// Raises if the dtype has no such reduction. Every member raises, before anything is sent.
void check_reducible(const Call& call) {
  const bool is_complex = c10::isComplexType(call.dtype);
  if (call.op == ReduceOp::Avg) {
    TORCH_CHECK_TYPE(
        is_complex || c10::isFloatingType(call.dtype), "[", call.to_string(),
        "] an average needs a floating point or complex dtype, but got ", dtype_text(call.dtype),
        ". Reduce by sum, or convert first.");
  } else if (call.op == ReduceOp::Max || call.op == ReduceOp::Min) {
    TORCH_CHECK_TYPE(
        !is_complex, "[", call.to_string(), "] max and min need numbers that have an order, but got ",
        dtype_text(call.dtype), ".");
  }
}

} // namespace

Group::Group(Communicator& communicator, GroupDescription description)
    : communicator_(communicator),
      description_(std::move(description)),
      use_(std::make_shared<GroupUse>(to_string())) {}

std::string Group::to_string() const {
  auto text = "group " + label() + " (ranks ";
  // Lists only the first ranks of a large group.
  constexpr size_t kShown = 16;
  for (size_t i = 0; i < std::min(ranks().size(), kShown); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(ranks()[i]);
  }
  return text + (ranks().size() > kShown ? ", ... " + std::to_string(ranks().size()) + " in all)" : ")");
}

Call Group::make_call(Collective collective, const at::Tensor& tensor, Reserved reserved) {
  Call call{.collective = collective, .subject = SubjectScope::current()};
  if (reserved.sequence < 0) { // a reserved call may be made on any thread
    TORCH_CHECK_NOT_IMPLEMENTED(
        CommunicationScope::is_allowed(), "[", weft::to_string(collective),
        "] a collective is required outside of a step that is recorded, because a replay would leave it out, but got "
        "one on ",
        to_string(), ". Make it before, and give the result as input.");
    use_->check_single_thread(weft::to_string(collective));
  }
  if (!is_message(collective)) {
    call.sequence = reserved.sequence >= 0 ? reserved.sequence : next_sequence();
  }
  if (tensor.defined()) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !is_traced(tensor), "[", weft::to_string(collective),
        "] a tensor with memory is required, but got a traced one of "
        "shape ",
        tensor.sizes(), ". Call this outside of the compiled function.");
    call.dtype = tensor.scalar_type();
    call.sizes = c10::DimVector(tensor.sizes());
  }
  return call;
}

Pending Group::track(const Call& call, int64_t received_bytes, Pending pending, int64_t stages) {
  communicator_.log_call(call, *this, received_bytes);
  return communicator_.progress().track(std::move(pending), stages, use_);
}

Pending Group::all_to_all(Tensors sends, Tensors recvs, Reserved reserved) {
  at::AutoDispatchBelowADInplaceOrView guard;
  TORCH_INTERNAL_ASSERT(static_cast<int64_t>(sends.size()) == size() && static_cast<int64_t>(recvs.size()) == size());
  const auto copy_own = [&] {
    if (sends[rank()].defined() && recvs[rank()].defined()) {
      recvs[rank()].copy_(sends[rank()]);
    }
  };
  if (size() == 1) {
    copy_own();
    return {};
  }
  const auto call = make_call(Collective::AllToAll, first_defined(sends, recvs), reserved);
  int64_t received = -bytes_of(recvs[rank()]);
  for (const auto& tensor : recvs) {
    received += bytes_of(tensor);
  }
  auto arrival = do_exchange(call, sends, recvs);
  copy_own(); // while the other members' tensors arrive
  return track(call, received, std::move(arrival));
}

Pending Group::all_gather(const at::Tensor& input, Tensors outputs, Reserved reserved) {
  return gather(Collective::AllGather, input, outputs, reserved);
}

Pending Group::compare_seeds(const at::Tensor& seed, Tensors outputs) {
  return gather(Collective::CompareSeeds, seed, outputs, {});
}

Pending Group::gather(Collective collective, const at::Tensor& input, Tensors outputs, Reserved reserved) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto copy_own = [&] {
    if (outputs[rank()].defined()) {
      outputs[rank()].copy_(input);
    }
  };
  if (size() == 1) {
    copy_own();
    return {};
  }
  const auto call = make_call(collective, input, reserved);
  int64_t received = -bytes_of(input);
  for (const auto& tensor : outputs) {
    received += bytes_of(tensor);
  }
  auto arrival = do_all_gather(call, input, outputs);
  copy_own(); // while the other members' tensors arrive
  return track(call, received, std::move(arrival));
}

Pending Group::all_gather(
    const at::Tensor& input,
    const at::Tensor& output,
    int64_t dim,
    c10::IntArrayRef lengths,
    Reserved reserved) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto copy_own = [&] {
    const auto begin = std::accumulate(lengths.begin(), lengths.begin() + rank(), int64_t{0});
    copy_into(input, output, dim, begin);
  };
  if (size() == 1) {
    copy_own();
    return {};
  }
  const auto call = make_call(Collective::AllGather, input, reserved);
  auto arrival = do_all_gather_into(call, input, output, dim, lengths);
  copy_own(); // while the other members' tensors arrive
  return track(call, bytes_of(output) - bytes_of(input), std::move(arrival));
}

Pending Group::reduce_scatter(Tensors inputs, const at::Tensor& output, ReduceOp op, Reserved reserved) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (size() == 1) {
    output.copy_(inputs[0]);
    return {};
  }
  auto call = make_call(Collective::ReduceScatter, output, reserved);
  call.op = op;
  check_reducible(call);
  return track(call, (size() - 1) * bytes_of(output), do_reduce_scatter(call, inputs, output));
}

Pending Group::all_reduce(const at::Tensor& input, const at::Tensor& output, ReduceOp op, Reserved reserved) {
  at::AutoDispatchBelowADInplaceOrView guard;
  TORCH_INTERNAL_ASSERT(output.is_contiguous() && output.sizes() == input.sizes());
  if (size() == 1) {
    output.copy_(input);
    return {};
  }
  auto call = make_call(Collective::AllReduce, input, reserved);
  call.op = op;
  check_reducible(call);
  const bool one_round = is_small(input);
  const auto bytes = bytes_of(input);
  const auto received = one_round ? (size() - 1) * bytes : 2 * (bytes - bytes / size());
  return track(call, received, do_all_reduce(call, input, output), one_round ? 1 : 2);
}

Pending Group::broadcast(const at::Tensor& tensor, int64_t root) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (size() == 1) {
    return {};
  }
  auto call = make_call(Collective::Broadcast, tensor);
  call.root = root;
  return track(call, rank() == root ? 0 : bytes_of(tensor), do_broadcast(call, tensor));
}

Pending Group::scatter(Tensors inputs, const at::Tensor& output, int64_t root) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (size() == 1) {
    output.copy_(inputs[0]);
    return {};
  }
  auto call = make_call(Collective::Scatter, output);
  call.root = root;
  std::vector<at::Tensor> sends(size());
  std::vector<at::Tensor> recvs(size());
  if (rank() == root) {
    sends.assign(inputs.begin(), inputs.end());
    output.copy_(inputs[root]);
  } else {
    recvs[root] = output;
  }
  return track(call, rank() == root ? 0 : bytes_of(output), do_exchange(call, sends, recvs));
}

Pending Group::send(const at::Tensor& tensor, int64_t to) {
  return message(Collective::Send, tensor, to);
}

Pending Group::recv(const at::Tensor& tensor, int64_t from) {
  return message(Collective::Recv, tensor, from);
}

Pending Group::message(Collective direction, const at::Tensor& tensor, int64_t peer) {
  at::AutoDispatchBelowADInplaceOrView guard;
  auto call = make_call(direction, tensor);
  call.root = peer;
  call.sequence = next_message(direction, peer);
  std::vector<at::Tensor> sends(size());
  std::vector<at::Tensor> recvs(size());
  (direction == Collective::Send ? sends : recvs)[peer] = tensor;
  return track(call, direction == Collective::Send ? 0 : bytes_of(tensor), do_exchange(call, sends, recvs));
}

Pending Group::barrier() {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (size() == 1) {
    return {};
  }
  const auto call = make_call(Collective::Barrier, {});
  const auto token = at::zeros({1}, at::kByte);
  const std::vector<at::Tensor> sends(size(), token);
  std::vector<at::Tensor> recvs(size());
  for (auto& recv : recvs) {
    recv = at::empty({1}, at::kByte);
  }
  return track(call, 0, do_exchange(call, sends, recvs));
}

Pending Group::do_all_gather(const Call& call, const at::Tensor& input, Tensors outputs) {
  return do_exchange(call, std::vector<at::Tensor>(size(), input), outputs);
}

Pending Group::do_all_gather_into(
    const Call& call,
    const at::Tensor& input,
    const at::Tensor& output,
    int64_t dim,
    c10::IntArrayRef lengths) {
  std::vector<at::Tensor> outputs(size());
  int64_t begin = 0;
  for (int64_t i = 0; i < size(); ++i) {
    if (lengths[i] > 0) {
      outputs[i] = output.narrow(dim, begin, lengths[i]);
    }
    begin += lengths[i];
  }
  return do_all_gather(call, input, outputs);
}

Pending Group::do_reduce_scatter(const Call& call, Tensors inputs, const at::Tensor& output) {
  // One of the first two terms may arrive in the output itself, because reduce_terms allows that.
  const auto into_output = rank() == 0 ? 1 : 0;
  std::vector<at::Tensor> terms(size());
  for (int64_t i = 0; i < size(); ++i) {
    terms[i] = i == into_output ? output : at::empty_like(output);
  }
  auto arrival = std::make_shared<Pending>(do_exchange(call, inputs, terms));
  terms[rank()] = inputs[rank()];
  return Pending([arrival, output, op = call.op, terms = std::move(terms)] {
    at::AutoDispatchBelowADInplaceOrView guard;
    arrival->wait();
    reduce_terms(output, terms, op);
  });
}

bool Group::is_small(const at::Tensor& tensor) const {
  const auto bytes = bytes_of(tensor);
  const auto extra = bytes * (size() - 1) * (size() - 2) / size();
  return bytes <= kOneRoundBytes && extra <= kMostExtraBytes;
}

Pending Group::do_all_reduce(const Call& call, const at::Tensor& input, const at::Tensor& output) {
  if (is_small(input)) {
    return do_reduce_scatter(call, std::vector<at::Tensor>(size(), input), output);
  }
  const auto outputs = flat_chunks(output, size());
  auto scattered = std::make_shared<Pending>(do_reduce_scatter(call, flat_chunks(input, size()), outputs[rank()]));
  auto gather = call;
  gather.stage = 1;
  auto gathered = std::make_shared<Pending>();
  const auto start_second = [this, self = shared_from_this(), scattered, gathered, gather, outputs] {
    at::AutoDispatchBelowADInplaceOrView guard;
    scattered->wait();
    *gathered = do_all_gather(gather, outputs[rank()], outputs);
  };
  return Pending(start_second, [gathered] { gathered->wait(); });
}

Pending Group::do_broadcast(const Call& call, const at::Tensor& tensor) {
  std::vector<at::Tensor> sends(size());
  std::vector<at::Tensor> recvs(size());
  if (rank() == call.root) {
    sends.assign(size(), tensor);
  } else {
    recvs[call.root] = tensor;
  }
  return do_exchange(call, sends, recvs);
}

} // namespace weft
