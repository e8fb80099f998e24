#include "weft/tensor/boundary/redistribute_to_mesh.h"

#include "weft/comm/communicator.h"
#include "weft/core/checked_layout.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/autograd_node.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/move_observer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

namespace weft {

namespace {

/// Per tensor dim, the ranges that a message consists of, as positions in the tensor sent from and in that received in.
using Ranges = std::vector<c10::SmallVector<Intersection, 1>>;

/// The elements that each rank of a mesh holds: per tensor dim, runs of indices.
class Shards {
 public:
  explicit Shards(const TensorSpec& spec) {
    const auto& mesh = spec.mesh();
    for (int64_t i = 0; i < mesh.size(); ++i) {
      auto& runs = runs_[mesh.ranks()[i]];
      for (int64_t d = 0; d < spec.dim(); ++d) {
        runs.push_back(local_runs(spec.sizes()[d], d, spec.layout(), mesh.shape(), coordinate_at(i, mesh.shape())));
      }
    }
  }

  bool has(int64_t rank) const {
    return runs_.count(rank) != 0;
  }
  const std::vector<Runs>& runs(int64_t rank) const {
    return runs_.at(rank);
  }
  /// Whether `holder` is the one that sends its elements to `receiver`, of the ranks that hold the same ones: the receiver
  /// itself if it is one of them, else each in turn, so that they send equally much.
  bool gives(int64_t holder, int64_t receiver) const {
    const auto& held = runs(holder);
    if (has(receiver) && runs(receiver) == held) {
      return holder == receiver;
    }
    std::vector<int64_t> replicas;
    for (const auto& [rank, runs] : runs_) {
      if (runs == held) {
        replicas.push_back(rank);
      }
    }
    return replicas[receiver % static_cast<int64_t>(replicas.size())] == holder;
  }

 private:
  std::map<int64_t, std::vector<Runs>> runs_;
};

Ranges ranges_between(const std::vector<Runs>& held, const std::vector<Runs>& wanted) {
  Ranges result;
  for (size_t d = 0; d < held.size(); ++d) {
    result.push_back(intersect(held[d], wanted[d]));
  }
  return result;
}

/// The message's shape; nullopt if there is nothing to send.
std::optional<c10::DimVector> shape_of(const Ranges& ranges) {
  c10::DimVector shape;
  for (const auto& dim : ranges) {
    int64_t length = 0;
    for (const auto& range : dim) {
      length += range.length;
    }
    if (length == 0) {
      return std::nullopt;
    }
    shape.push_back(length);
  }
  return shape;
}

/// Copies a message's elements out of the tensor that is sent from, or into the one that is received in.
void copy_elements(
    const at::Tensor& tensor,
    const at::Tensor& message,
    const Ranges& ranges,
    int64_t Intersection::*begin,
    size_t dim = 0) {
  if (dim == ranges.size()) {
    begin == &Intersection::held_begin ? message.copy_(tensor) : tensor.copy_(message);
    return;
  }
  int64_t position = 0;
  for (const auto& range : ranges[dim]) {
    const auto d = static_cast<int64_t>(dim);
    copy_elements(
        tensor.narrow(d, range.*begin, range.length), message.narrow(d, position, range.length), ranges, begin,
        dim + 1);
    position += range.length;
  }
}

std::vector<int64_t> ranks_of_both(const DeviceMesh& a, const DeviceMesh& b) {
  std::set<int64_t> ranks(a.ranks().begin(), a.ranks().end());
  ranks.insert(b.ranks().begin(), b.ranks().end());
  return {ranks.begin(), ranks.end()};
}

bool all_keep(const Shards& source, const Shards& target, const std::vector<int64_t>& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](int64_t rank) {
    return source.has(rank) && target.has(rank) && source.runs(rank) == target.runs(rank);
  });
}

/// A mesh of one dim over the ranks of both, which no user's mesh is equal to.
DeviceMesh joined(const DeviceMesh& from, const DeviceMesh& to, const std::vector<int64_t>& ranks) {
  std::string name;
  for (const auto& each : from.names()) {
    name += each + "_";
  }
  name += "to";
  for (const auto& each : to.names()) {
    name += "_" + each;
  }
  return {from.world(), from.device_type(), {static_cast<int64_t>(ranks.size())}, ranks, {name}};
}

/// This rank's local tensor on the target's mesh. Neither spec is partial.
at::Tensor exchanged(const at::Tensor& local, const TensorSpec& source, const TensorSpec& target) {
  const auto ranks = ranks_of_both(source.mesh(), target.mesh());
  const auto own = source.mesh().world()->rank();
  auto output = at::empty(target.local_shape_and_offset().shape, local.options());
  if (std::find(ranks.begin(), ranks.end(), own) == ranks.end() || local.is_meta()) {
    return output;
  }
  const Shards before(source);
  const Shards after(target);
  if (all_keep(before, after, ranks)) {
    return output.copy_(local);
  }
  std::vector<at::Tensor> sends(ranks.size());
  std::vector<at::Tensor> recvs(ranks.size());
  std::vector<Ranges> arrivals(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto other = ranks[i];
    if (before.has(own) && after.has(other) && before.gives(own, other)) {
      const auto ranges = ranges_between(before.runs(own), after.runs(other));
      if (const auto shape = shape_of(ranges)) {
        sends[i] = at::empty(*shape, local.options());
        copy_elements(local, sends[i], ranges, &Intersection::held_begin);
      }
    }
    if (after.has(own) && before.has(other) && before.gives(other, own)) {
      arrivals[i] = ranges_between(before.runs(other), after.runs(own));
      if (const auto shape = shape_of(arrivals[i])) {
        recvs[i] = at::empty(*shape, local.options());
      }
    }
  }
  const auto mesh = joined(source.mesh(), target.mesh(), ranks);
  Communicator::of(mesh).group(mesh, {0})->all_to_all(sends, recvs).wait();
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (recvs[i].defined()) {
      copy_elements(output, recvs[i], arrivals[i], &Intersection::wanted_begin);
    }
  }
  return output;
}

/// The local tensor of a rank, in a layout without partial placements, with its lazy signs computed.
at::Tensor reduced(const at::Tensor& tensor, const SpecPtr& source) {
  const auto values = source->mesh().is_member() ? redistribute(tensor, source->layout()) : tensor;
  return as_dtensor(values)->local().resolve_conj().resolve_neg();
}

at::Tensor moved(const at::Tensor& tensor, const DeviceMesh& mesh, const Layout& layout) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto& spec = *as_dtensor(tensor)->spec();
  const auto source = spec.with(without_partial(spec.layout()));
  const auto target = TensorSpec::make(
      mesh, without_partial(layout), spec.sizes(), dense_strides(spec.sizes(), order_in_memory(spec)), spec.dtype());
  const auto local = exchanged(reduced(tensor, source), *source, *target);
  if (!mesh.is_member()) {
    return make_dtensor(local, target->with(layout));
  }
  return redistribute(make_dtensor(in_stride_order(local, *target), target), layout);
}

/// Redistributes the gradient to the mesh and layout of the tensor.
class RedistributeToMeshNode : public UnaryNode {
 public:
  explicit RedistributeToMeshNode(SpecPtr source) : source_(std::move(source)) {}

  at::Tensor backward(const at::Tensor& gradient) override {
    return redistribute_to_mesh(gradient, source_->mesh(), without_partial(source_->layout()));
  }
  std::string name() const override {
    return "weft::redistribute_to_mesh";
  }

 private:
  SpecPtr source_;
};

} // namespace

at::Tensor redistribute_to_mesh(const at::Tensor& tensor, const DeviceMesh& mesh, const Layout& layout) {
  const auto& spec = *checked_values("redistribute", tensor).spec();
  TORCH_CHECK_VALUE(
      mesh.world() == spec.mesh().world() && mesh.device_type() == spec.mesh().device_type(),
      "[redistribute] a mesh of the tensor's world and type of device is required, but got ", mesh, " for ", spec,
      ". Gather the tensor with full_tensor and distribute that on the other mesh.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      MoveObserver::of_thread() == nullptr, "[redistribute] a program that is captured has one mesh, but got ", mesh,
      " for ", spec, ". Redistribute before the program or after it.");
  const auto placements = checked_layout("redistribute", mesh, layout, spec.dim());
  if (C10_UNLIKELY(has_tangent(tensor))) {
    check_has_gradient("redistribute", spec);
    return with_tangent(tensor, [&](const at::Tensor& each) { return redistribute_to_mesh(each, mesh, layout); });
  }
  if (!is_recorded(tensor)) {
    return moved(tensor, mesh, placements);
  }
  const auto ranks = ranks_of_both(spec.mesh(), mesh);
  TORCH_CHECK_NOT_IMPLEMENTED(
      static_cast<int64_t>(ranks.size()) == mesh.size() && mesh.size() == spec.mesh().size(),
      "[redistribute] a tensor that requires a gradient can go to a mesh of the same ranks, but got ", mesh, " for ",
      spec, ". Detach it first, and send the gradient back yourself.");
  const at::NoGradGuard no_graph;
  auto result = moved(tensor, mesh, placements);
  record<RedistributeToMeshNode>(tensor, result, as_dtensor(tensor)->spec());
  return result;
}

} // namespace weft
