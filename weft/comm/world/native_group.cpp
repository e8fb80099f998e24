#include "weft/comm/world/native_group.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace weft {

namespace {

c10d::ReduceOp native_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::Avg:
      return c10d::ReduceOp::AVG;
    case ReduceOp::Max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::Min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::Product:
      return c10d::ReduceOp::PRODUCT;
  }
  TORCH_INTERNAL_ASSERT(false);
}

class NativeGroup : public BackendGroup {
 public:
  using BackendGroup::BackendGroup;

  bool blocks_host() const override {
    return false;
  }

 protected:
  Pending do_exchange(const Call& call, Tensors sends, Tensors recvs) override {
    if (is_message(call.collective)) {
      return message(call, call.collective == Collective::Send ? sends[call.root] : recvs[call.root]);
    }
    const auto options = options_of(sends, recvs);
    auto inputs = packed(sends, options);
    auto outputs = buffers(recvs, options);
    inputs[rank()] = outputs[rank()] = at::empty({0}, options);
    return start(call, recvs.vec(), outputs, [&] { return channel_->backend().alltoall(outputs, inputs); });
  }

  Pending do_all_gather(const Call& call, const at::Tensor& input, Tensors outputs) override {
    std::vector<at::Tensor> inputs = {input.contiguous()};
    std::vector<std::vector<at::Tensor>> gathered = {buffers(outputs, input.options())};
    return start(call, outputs.vec(), gathered[0], [&] { return channel_->backend().allgather(gathered, inputs); });
  }

  Pending do_all_gather_into(
      const Call& call,
      const at::Tensor& input,
      const at::Tensor& output,
      int64_t dim,
      c10::IntArrayRef lengths) override {
    const bool is_even = std::all_of(lengths.begin(), lengths.end(), [&](int64_t each) { return each == lengths[0]; });
    if (!is_even) {
      return Group::do_all_gather_into(call, input, output, dim, lengths);
    }
    // Given a list, NCCL would gather into memory of its own and copy from there.
    auto gathered = output;
    auto own = input.contiguous();
    return start(call, {}, {}, [&] { return channel_->backend()._allgather_base(gathered, own); });
  }

  Pending do_reduce_scatter(const Call& call, Tensors inputs, const at::Tensor& output) override {
    if (auto all = consecutive(inputs); all.defined() && output.is_contiguous()) {
      auto own = output.view({-1});
      c10d::ReduceScatterOptions options;
      options.reduceOp = native_op(call.op);
      return start(call, {}, {}, [&] { return channel_->backend()._reduce_scatter_base(own, all, options); });
    }
    std::vector<std::vector<at::Tensor>> packed_inputs = {packed(inputs, output.options())};
    auto outputs = buffers(output, output.options());
    c10d::ReduceScatterOptions options;
    options.reduceOp = native_op(call.op);
    return start(
        call, {output}, outputs, [&] { return channel_->backend().reduce_scatter(outputs, packed_inputs, options); });
  }

  Pending do_all_reduce(const Call& call, const at::Tensor& input, const at::Tensor& output) override {
    output.copy_(input);
    std::vector<at::Tensor> tensors = {output};
    c10d::AllreduceOptions options;
    options.reduceOp = native_op(call.op);
    return start(call, {output}, tensors, [&] { return channel_->backend().allreduce(tensors, options); });
  }

  Pending do_broadcast(const Call& call, const at::Tensor& tensor) override {
    auto tensors = rank() == call.root ? packed(tensor, tensor.options()) : buffers(tensor, tensor.options());
    c10d::BroadcastOptions options;
    options.rootRank = call.root;
    return start(call, {tensor}, tensors, [&] { return channel_->backend().broadcast(tensors, options); });
  }

 private:
  /// Tensors of one length that follow each other in memory as one tensor; undefined if they are not such.
  static at::Tensor consecutive(Tensors tensors) {
    const auto& first = tensors[0];
    auto next = first.storage_offset();
    for (const auto& tensor : tensors) {
      if (!tensor.is_contiguous() || tensor.numel() != first.numel() || !tensor.is_alias_of(first) ||
          tensor.storage_offset() != next) {
        return {};
      }
      next += tensor.numel();
    }
    return first.as_strided({next - first.storage_offset()}, {1});
  }

  static at::TensorOptions options_of(Tensors sends, Tensors recvs) {
    for (const auto tensors : {sends, recvs}) {
      for (const auto& tensor : tensors) {
        if (tensor.defined()) {
          return tensor.options();
        }
      }
    }
    return {};
  }

  static std::vector<at::Tensor> packed(Tensors tensors, const at::TensorOptions& options) {
    std::vector<at::Tensor> result;
    for (const auto& tensor : tensors) {
      result.push_back(tensor.defined() ? tensor.contiguous() : at::empty({0}, options));
    }
    return result;
  }

  /// Contiguous tensors to receive into: the targets themselves if they are contiguous.
  static std::vector<at::Tensor> buffers(Tensors targets, const at::TensorOptions& options) {
    std::vector<at::Tensor> result;
    for (const auto& target : targets) {
      if (!target.defined()) {
        result.push_back(at::empty({0}, options));
      } else {
        result.push_back(target.is_contiguous() ? target : at::empty(target.sizes(), options));
      }
    }
    return result;
  }

  Pending message(const Call& call, const at::Tensor& tensor) {
    const auto peer = static_cast<int>(call.root);
    if (call.collective == Collective::Send) {
      std::vector<at::Tensor> tensors = packed(tensor, tensor.options());
      return start(call, {}, {}, [&] { return channel_->backend().send(tensors, peer, 0); });
    }
    auto tensors = buffers(tensor, tensor.options());
    return start(call, {tensor}, tensors, [&] { return channel_->backend().recv(tensors, peer, 0); });
  }

  template <class Start>
  Pending start(
      const Call& call,
      std::vector<at::Tensor> targets,
      const std::vector<at::Tensor>& arrived,
      Start begin) {
    channel_->check_usable(*this, call);
    try {
      auto work = begin();
      return Pending([this, self = shared_from_this(), call, work, targets = std::move(targets), arrived] {
        at::AutoDispatchBelowADInplaceOrView guard;
        try {
          work->wait();
        } catch (const std::exception& error) {
          channel_->fail(*this, call, error.what());
        }
        for (size_t i = 0; i < targets.size(); ++i) {
          if (targets[i].defined() && !targets[i].is_same(arrived[i]) && arrived[i].numel() > 0) {
            targets[i].copy_(arrived[i]);
          }
        }
      });
    } catch (const std::exception& error) {
      channel_->fail(*this, call, error.what());
    }
  }
};

} // namespace

std::shared_ptr<Group> make_native_group(
    Communicator& communicator,
    GroupDescription description,
    std::shared_ptr<BackendChannel> channel) {
  return std::make_shared<NativeGroup>(communicator, std::move(description), std::move(channel));
}

} // namespace weft
