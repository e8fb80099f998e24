#include "weft/tensor/boundary/halo.h"

#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

namespace weft {

namespace {

template <class Region>
c10::DimVector shape_of(const Region& region) {
  c10::DimVector shape;
  for (const auto& run : region) {
    shape.push_back(run.length);
  }
  return shape;
}

template <class Region>
Region common(const Region& a, const Region& b) {
  Region result;
  for (size_t d = 0; d < a.size(); ++d) {
    const auto begin = std::max(a[d].begin, b[d].begin);
    const auto end = std::min(a[d].begin + a[d].length, b[d].begin + b[d].length);
    result.push_back({begin, std::max<int64_t>(end - begin, 0)});
  }
  return result;
}

template <class Region>
int64_t count(const Region& region) {
  return c10::multiply_integers(shape_of(region));
}

/// The view of the elements at `wanted` of `tensor`, which has those at `held`.
template <class Region>
at::Tensor view_within(at::Tensor tensor, const Region& held, const Region& wanted) {
  for (size_t d = 0; d < held.size(); ++d) {
    if (wanted[d].length != held[d].length) {
      tensor = tensor.narrow(static_cast<int64_t>(d), wanted[d].begin - held[d].begin, wanted[d].length);
    }
  }
  return tensor;
}

} // namespace

int64_t SlidingWindow::outputs_of(int64_t inputs) const {
  const auto last = inputs + 2 * padding - dilation * (length - 1) - 1; // where the last window may begin
  return last < 0 ? 0 : last / stride + 1;
}

Run SlidingWindow::inputs_of(Run outputs) const {
  const auto begin = outputs.begin * stride - padding;
  return {begin, outputs.length == 0 ? 0 : (outputs.length - 1) * stride + dilation * (length - 1) + 1};
}

Halo::Halo(const SpecPtr& input, MeshDims mesh_dims, const std::vector<SlidingWindow>& windows)
    : input_(input), mesh_dims_(std::move(mesh_dims)) {
  const auto& mesh = input->mesh();
  c10::SmallVector<int64_t, kMaxMeshDims> coordinate(mesh.ndim(), 0);
  if (mesh.is_member()) {
    std::copy(mesh.coordinate().begin(), mesh.coordinate().end(), coordinate.begin());
  }
  c10::DimVector group_shape;
  for (const auto m : mesh_dims_) {
    group_shape.push_back(mesh.size(m));
    own_ = own_ * mesh.size(m) + coordinate[m];
  }
  for (int64_t i = 0; i < mesh.group_size(mesh_dims_); ++i) {
    const auto position = coordinate_at(i, group_shape);
    for (size_t k = 0; k < mesh_dims_.size(); ++k) {
      coordinate[mesh_dims_[k]] = position[k];
    }
    members_.push_back(member_at(coordinate, windows));
  }
}

bool Halo::slides_along(int64_t tensor_dim) const {
  return std::any_of(
      mesh_dims_.begin(), mesh_dims_.end(), [&](int64_t m) { return input_->layout()[m].is_shard(tensor_dim); });
}

Halo::Member Halo::member_at(c10::IntArrayRef coordinate, const std::vector<SlidingWindow>& windows) const {
  const auto run = [&](int64_t size, int64_t dim) {
    return local_runs(size, dim, input_->layout(), input_->mesh().shape(), coordinate)[0];
  };
  Member member;
  for (int64_t d = 0; d < input_->dim(); ++d) {
    const auto size = input_->sizes()[d];
    member.shard.push_back(run(size, d));
    member.window.push_back(
        slides_along(d) ? windows[d].inputs_of(run(windows[d].outputs_of(size), d)) : member.shard.back());
  }
  return member;
}

double Halo::received_share() const {
  const auto count_sliding = [&](const Region& region) {
    double result = 1;
    for (size_t d = 0; d < region.size(); ++d) {
      result *= slides_along(static_cast<int64_t>(d)) ? static_cast<double>(region[d].length) : 1;
    }
    return result;
  };
  double most = 0;
  double largest = 0;
  for (const auto& receiver : members_) {
    double received = 0;
    for (const auto& holder : members_) {
      received += &holder == &receiver ? 0 : count_sliding(common(holder.shard, receiver.window));
    }
    most = std::max(most, received);
    largest = std::max(largest, count_sliding(receiver.shard));
  }
  return most / largest;
}

c10::DimVector Halo::window_shape() const {
  return shape_of(members_[own_].window);
}

void Halo::tell(const char* op) const {
  if (Scopes::of_thread().any()) {
    auto explanation = std::make_shared<Explanation>();
    explanation->op = op;
    explanation->inputs = {input_->to_string()};
    explanation->strategy = input_->layout().to_string() + " stays";
    explanation->plans = {"all_to_all over " + input_->mesh().dims_text(mesh_dims_)};
    explanation->why = "ranks exchange the rows next to a shard that windows reach";
    tell_scopes(explanation, /*communicates=*/true);
  }
}

at::Tensor Halo::gathered(const char* op, const at::Tensor& shard) const {
  const auto& own = members_[own_];
  const auto window = at::zeros(window_shape(), shard.options().memory_format(shard.suggest_memory_format()));
  std::vector<at::Tensor> sends(members_.size());
  std::vector<at::Tensor> recvs(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    const auto sent = common(own.shard, members_[i].window);
    const auto received = common(members_[i].shard, own.window);
    if (count(sent) > 0) {
      sends[i] = view_within(shard, own.shard, sent);
    }
    if (count(received) > 0) {
      recvs[i] = view_within(window, own.window, received);
    }
  }
  if (!shard.is_meta()) {
    tell(op);
    exchange_slices(op, shard, input_->mesh(), mesh_dims_, sends, recvs);
  }
  return window;
}

at::Tensor Halo::scattered(const char* op, const at::Tensor& window) const {
  const auto& own = members_[own_];
  const auto result = at::zeros(shape_of(own.shard), window.options().memory_format(window.suggest_memory_format()));
  std::vector<at::Tensor> sends(members_.size());
  std::vector<at::Tensor> recvs(members_.size());
  for (size_t i = 0; i < members_.size(); ++i) {
    const auto sent = common(members_[i].shard, own.window);
    const auto received = common(own.shard, members_[i].window);
    if (count(sent) > 0) {
      sends[i] = view_within(window, own.window, sent);
    }
    if (count(received) > 0) {
      recvs[i] = at::empty(shape_of(received), window.options());
    }
  }
  if (result.is_meta()) {
    return result;
  }
  tell(op);
  exchange_slices(op, window, input_->mesh(), mesh_dims_, sends, recvs);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (recvs[i].defined()) {
      view_within(result, own.shard, common(own.shard, members_[i].window)).add_(recvs[i]);
    }
  }
  return result;
}

} // namespace weft
