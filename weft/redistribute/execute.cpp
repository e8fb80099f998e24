#include "weft/redistribute/execute.h"

#include "weft/core/traced_tensor.h"
#include "weft/redistribute/local_recorder.h"
#include "weft/redistribute/traced_redistribution.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/hash.h>

#include <cstring>
#include <unordered_map>

namespace weft {

namespace {

/// The view of `tensor` that a single box describes, at its held or its wanted positions.
at::Tensor view_of(const at::Tensor& tensor, const Box& box, int64_t Intersection::*begin) {
  c10::DimVector sizes;
  auto offset = tensor.storage_offset();
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const auto& range = box.dims[d][0];
    sizes.push_back(range.length);
    offset += range.*begin * tensor.stride(static_cast<int64_t>(d));
  }
  // Makes the view without the dispatcher, which would cost more than all other work: every step makes one view per
  // rank.
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()), tensor.key_set(), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, tensor.strides(), offset);
  return view;
}

/// A contiguous copy. A small tensor is copied without the dispatcher, which would cost more than the copy.
at::Tensor packed(const at::Tensor& view) {
  constexpr int64_t kSmall = 1 << 14;
  const bool is_plain = view.is_cpu() && !view.is_conj() && !view.is_neg();
  if (!is_plain || view.dim() == 0 || view.stride(-1) != 1 || view.numel() == 0 || view.numel() > kSmall) {
    return view.contiguous();
  }
  at::Tensor copy = at::detail::empty_cpu(view.sizes(), view.scalar_type());
  const auto item_bytes = static_cast<int64_t>(view.element_size());
  const auto row_bytes = view.size(-1) * item_bytes;
  auto* to = static_cast<char*>(copy.mutable_data_ptr());
  const auto* from = static_cast<const char*>(view.const_data_ptr());
  c10::DimVector index(view.dim() - 1, 0);
  for (auto rows = view.numel() / view.size(-1); rows > 0; --rows, to += row_bytes) {
    std::memcpy(to, from, row_bytes);
    for (auto d = static_cast<int64_t>(index.size()) - 1; d >= 0; --d) {
      from += view.stride(d) * item_bytes;
      if (++index[d] < view.size(d)) {
        break;
      }
      from -= view.stride(d) * view.size(d) * item_bytes;
      index[d] = 0;
    }
  }
  return copy;
}

/// Calls fn(block) for every combination of one range per dim of the box.
template <class Fn>
void for_each_block(const Box& box, Fn fn) {
  std::vector<size_t> index(box.dims.size(), 0);
  while (true) {
    Box block;
    for (size_t d = 0; d < index.size(); ++d) {
      block.dims.push_back({box.dims[d][index[d]]});
    }
    fn(block);
    auto d = static_cast<int64_t>(index.size()) - 1;
    while (d >= 0 && ++index[d] == box.dims[d].size()) {
      index[d--] = 0;
    }
    if (d < 0) {
      return;
    }
  }
}

/// The elements of a tensor that a box describes: a view if the box is single, else a packed copy.
at::Tensor take(const at::Tensor& tensor, const Box& box) {
  if (box.is_single()) {
    return view_of(tensor, box, &Intersection::held_begin);
  }
  const auto packed = at::empty(box.shape(), tensor.options());
  for_each_block(box, [&](const Box& block) {
    view_of(packed, block, &Intersection::wanted_begin).copy_(view_of(tensor, block, &Intersection::held_begin));
  });
  return packed;
}

/// The tensor to receive a box into: a view of the target if the box is single, else a buffer that put() copies from
/// later.
at::Tensor landing(const at::Tensor& tensor, const Box& box) {
  return box.is_single() ? view_of(tensor, box, &Intersection::wanted_begin) : at::empty(box.shape(), tensor.options());
}

void put(const at::Tensor& tensor, const Box& box, const at::Tensor& arrived) {
  for_each_block(box, [&](const Box& block) {
    view_of(tensor, block, &Intersection::wanted_begin).copy_(view_of(arrived, block, &Intersection::held_begin));
  });
}

/// Whether a box describes any element; false also for a box without dims.
bool carries(const Box& box, int64_t tensor_ndim) {
  return static_cast<int64_t>(box.dims.size()) == tensor_ndim && !box.is_empty();
}

/// Boxes that are consecutive in a tensor: the dim along which they are, and the length of each.
struct Concatenation {
  int64_t dim;
  std::vector<int64_t> lengths;
};

std::optional<Concatenation> concatenation(const std::vector<Box>& boxes, c10::IntArrayRef shape) {
  const auto first = std::find_if(shape.begin(), shape.end(), [](int64_t size) { return size > 1; });
  if (first == shape.end() || c10::multiply_integers(shape) == 0) {
    return std::nullopt;
  }
  Concatenation result{first - shape.begin(), {}};
  int64_t begin = 0;
  for (const auto& box : boxes) {
    if (!carries(box, static_cast<int64_t>(shape.size()))) {
      result.lengths.push_back(0);
      continue;
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      const bool is_first = static_cast<int64_t>(d) == result.dim;
      const auto expected = is_first ? begin : 0;
      if (box.dims[d].size() != 1 || box.dims[d][0].wanted_begin != expected ||
          (!is_first && box.dims[d][0].length != shape[d])) {
        return std::nullopt;
      }
    }
    result.lengths.push_back(box.dims[result.dim][0].length);
    begin += result.lengths.back();
  }
  return begin == *first ? std::optional(std::move(result)) : std::nullopt;
}

} // namespace

/// Shared with the operations that it has started, because these may outlive the plan.
struct CompiledPlan::CompiledStep : std::enable_shared_from_this<CompiledStep> {
  StepKind kind;
  std::shared_ptr<Group> group;          // if the step communicates
  Transfer transfer;                     // if the step transfers data
  Reduction reduction{ReduceOp::Sum, 1}; // if the step reduces; of a make_partial the op alone
  bool is_identity = false;              // of a slice or make_partial that keeps the full local tensor
  std::optional<Concatenation> gathered; // of an all_gather whose received shards are consecutive

  CompiledStep(const Step& step, const TensorSpec& spec);

  AsyncTensor run(const at::Tensor& local, Reserved reserved) const;

 private:
  at::Tensor slice(const at::Tensor& local) const;
  at::Tensor make_partial(const at::Tensor& local) const;
  /// Half precision is divided before the sum, which may be too large for 16 bits where the average is not.
  bool divides_first(const at::Tensor& local) const {
    return reduction.divisor > 1 && local.scalar_type() == at::kHalf;
  }
  AsyncTensor divided(const at::Tensor& sum, Pending arrival) const;
  AsyncTensor exchange(const at::Tensor& local, Reserved reserved) const;
  AsyncTensor reduce_scatter(const at::Tensor& local, Reserved reserved) const;
  AsyncTensor all_reduce(const at::Tensor& local, Reserved reserved) const;
};

CompiledPlan::CompiledStep::CompiledStep(const Step& step, const TensorSpec& spec) : kind(step.kind) {
  const auto& mesh = spec.mesh();
  if (communicates(kind)) {
    group = Communicator::of(mesh).group(mesh, step.mesh_dims);
  }
  if (kind != StepKind::AllReduce && kind != StepKind::MakePartial) {
    transfer = weft::transfer(step, spec.sizes(), mesh.shape(), mesh.coordinate());
  }
  if (kind == StepKind::AllGather) {
    gathered = concatenation(transfer.recvs, transfer.shape_after);
  }
  if (kind == StepKind::AllReduce || kind == StepKind::ReduceScatter) {
    reduction = reduction_of(step, mesh.shape());
  }
  if (kind == StepKind::Slice) {
    const auto before = weft::local_shape_and_offset(spec.sizes(), step.before, mesh.shape(), mesh.coordinate());
    is_identity = before.shape == transfer.shape_after;
  }
  if (kind == StepKind::MakePartial) {
    is_identity = true;
    for (const auto m : step.mesh_dims) {
      const auto partial_op = step.after[m].reduce_op();
      if (mesh.rank(m) != 0 && (partial_op == ReduceOp::Sum || partial_op == ReduceOp::Product)) {
        is_identity = false;
        reduction.op = partial_op;
      }
    }
  }
}

at::Tensor CompiledPlan::CompiledStep::slice(const at::Tensor& local) const {
  const auto& kept = transfer.sends[0];
  if (is_identity) {
    return local;
  }
  if (kept.is_empty()) {
    return at::empty(transfer.shape_after, local.options());
  }
  const auto view = take(local, kept);
  return view.is_contiguous() ? view : packed(view);
}

at::Tensor CompiledPlan::CompiledStep::make_partial(const at::Tensor& local) const {
  if (is_identity) {
    return local;
  }
  const UntracedScope untraced; // to a tracer a Python number is no tensor
  auto neutral = reduction.op == ReduceOp::Product ? at::ones_like(local) : at::zeros_like(local);
  // A Python number participates in type promotion only by its kind (f32 + 1e-3 is f32), and must do so on every rank.
  if (local.unsafeGetTensorImpl()->is_wrapped_number()) {
    neutral.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return neutral;
}

AsyncTensor CompiledPlan::CompiledStep::exchange(const at::Tensor& local, Reserved reserved) const {
  const auto output = at::empty(transfer.shape_after, local.options());
  if (gathered) {
    return {output, group->all_gather(local, output, gathered->dim, gathered->lengths, reserved)};
  }
  const auto size = group->size();
  std::vector<at::Tensor> sends(size);
  std::vector<at::Tensor> recvs(size);
  bool all_in_place = true;
  for (int64_t i = 0; i < size; ++i) {
    if (kind == StepKind::AllToAll && carries(transfer.sends[i], local.dim())) {
      sends[i] = take(local, transfer.sends[i]);
    }
    if (carries(transfer.recvs[i], local.dim())) {
      recvs[i] = landing(output, transfer.recvs[i]);
      all_in_place = all_in_place && transfer.recvs[i].is_single();
    }
  }
  auto arrival = kind == StepKind::AllGather ? group->all_gather(local, recvs, reserved)
                                             : group->all_to_all(sends, recvs, reserved);
  if (all_in_place) {
    return {output, std::move(arrival)};
  }
  const auto shared_arrival = std::make_shared<Pending>(std::move(arrival));
  return {output, Pending([self = shared_from_this(), shared_arrival, recvs, output] {
            at::AutoDispatchBelowADInplaceOrView guard;
            shared_arrival->wait();
            for (size_t i = 0; i < recvs.size(); ++i) {
              if (recvs[i].defined() && !self->transfer.recvs[i].is_single()) {
                put(output, self->transfer.recvs[i], recvs[i]);
              }
            }
          })};
}

AsyncTensor CompiledPlan::CompiledStep::divided(const at::Tensor& sum, Pending arrival) const {
  if (reduction.divisor == 1 || divides_first(sum)) {
    return {sum, std::move(arrival)};
  }
  const auto shared_arrival = std::make_shared<Pending>(std::move(arrival));
  return {sum, Pending([shared_arrival, sum, divisor = reduction.divisor] {
            const at::AutoDispatchBelowADInplaceOrView guard;
            shared_arrival->wait();
            sum.div_(divisor);
          })};
}

AsyncTensor CompiledPlan::CompiledStep::reduce_scatter(const at::Tensor& local, Reserved reserved) const {
  const auto output = at::empty(transfer.shape_after, local.options());
  std::vector<at::Tensor> inputs;
  for (const auto& box : transfer.sends) {
    inputs.push_back(carries(box, local.dim()) ? take(local, box) : at::empty(box.shape(), local.options()));
  }
  return divided(output, group->reduce_scatter(inputs, output, reduction.op, reserved));
}

AsyncTensor CompiledPlan::CompiledStep::all_reduce(const at::Tensor& local, Reserved reserved) const {
  const auto output = at::empty(local.sizes(), local.options());
  return divided(output, group->all_reduce(local, output, reduction.op, reserved));
}

AsyncTensor CompiledPlan::CompiledStep::run(const at::Tensor& local, Reserved reserved) const {
  switch (kind) {
    case StepKind::Slice:
      return slice(local);
    case StepKind::MakePartial:
      return make_partial(local);
    case StepKind::AllGather:
    case StepKind::AllToAll:
      return exchange(local, reserved);
    case StepKind::ReduceScatter:
      return reduce_scatter(divides_first(local) ? local.div(reduction.divisor) : local, reserved);
    case StepKind::AllReduce:
      return all_reduce(divides_first(local) ? local.div(reduction.divisor) : local, reserved);
  }
  TORCH_INTERNAL_ASSERT(false);
}

CompiledPlan::CompiledPlan(Plan plan)
    : plan_(std::move(plan)), local_shape_(plan_.source->local_shape_and_offset().shape) {
  if (!plan_.source->mesh().is_member()) {
    return;
  }
  for (const auto& step : plan_.steps) {
    steps_.push_back(std::make_shared<const CompiledStep>(step, *plan_.source));
  }
}

void CompiledPlan::check_local(const at::Tensor& local) const {
  TORCH_CHECK_VALUE(
      local.sizes() == c10::IntArrayRef(local_shape_) && local.scalar_type() == plan_.source->dtype(),
      "[redistribute] rank ", plan_.source->mesh().world()->rank(), " must hold a local tensor of shape ",
      c10::IntArrayRef(local_shape_), " of ", *plan_.source, ", but got ", local.sizes(), " of ", local.scalar_type(),
      ".");
}

AsyncTensor CompiledPlan::run(const at::Tensor& local) const {
  at::AutoDispatchBelowADInplaceOrView guard;
  check_local(local);
  if (C10_UNLIKELY(!plan_.source->mesh().is_member())) {
    return at::zeros(local.sizes(), local.options()); // no rank sends it anything
  }
  if (is_traced(local)) {
    return run_traced(plan_, local);
  }
  const auto start = [&] {
    // Collectives transfer memory, and a lazy conjugate or negative is not in memory yet.
    const bool is_lazy = local.is_conj() || local.is_neg();
    AsyncTensor current = C10_UNLIKELY(is_lazy) ? local.resolve_conj().resolve_neg() : local;
    size_t next = 0;
    while (next < steps_.size() && current.ready()) {
      const auto& step = *steps_[next++];
      current = step.run(current.wait(), {});
      if (step.group && !step.group->blocks_host()) {
        current.wait();
      }
    }
    return next == steps_.size() ? current : finish_later(std::move(current), next);
  };
  if (auto* recorder = LocalRecorder::of_thread(); C10_UNLIKELY(recorder != nullptr)) {
    return recorder->redistribute(plan_, local, [&] { return start().wait(); });
  }
  return start();
}

AsyncTensor CompiledPlan::finish_later(AsyncTensor current, size_t next) const {
  // Reserves the sequence numbers of the remaining steps now, because ranks may wait for this result at different
  // times.
  std::vector<std::pair<std::shared_ptr<const CompiledStep>, Reserved>> rest;
  for (; next < steps_.size(); ++next) {
    rest.emplace_back(steps_[next], steps_[next]->group ? steps_[next]->group->reserve() : Reserved{});
  }
  const auto result = std::make_shared<at::Tensor>();
  Pending pending([current = std::move(current), rest = std::move(rest), result] {
    at::AutoDispatchBelowADInplaceOrView guard;
    *result = current.wait();
    for (const auto& [step, reserved] : rest) {
      *result = step->run(*result, reserved).wait();
    }
  });
  return {result, Communicator::of(plan_.source->mesh()).progress().track(std::move(pending), 2)};
}

namespace {

class PlanCache {
 public:
  std::shared_ptr<const CompiledPlan> find_or_compile(const SpecPtr& source, const SpecPtr& target) {
    const Key key{source.get(), target.get()};
    if (const auto found = plans_.find(key); found != plans_.end()) {
      ++hits_;
      return found->second;
    }
    ++misses_;
    if (plans_.size() >= kMaxPlans) {
      plans_.clear();
    }
    return plans_.emplace(key, std::make_shared<CompiledPlan>(plan(source, target))).first->second;
  }

  void clear() {
    plans_.clear();
  }

  PlanCacheCounters counters() const {
    return {plans_.size(), hits_, misses_};
  }

 private:
  // The compiled plan keeps both specs alive, so that their addresses stay unique.
  using Key = std::pair<const TensorSpec*, const TensorSpec*>;
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return c10::get_hash(key.first, key.second);
    }
  };

  static constexpr size_t kMaxPlans = 4096;

  std::unordered_map<Key, std::shared_ptr<const CompiledPlan>, KeyHash> plans_;
  size_t hits_ = 0;
  size_t misses_ = 0;
};

thread_local PlanCache plan_cache;

const bool drops_plans = [] {
  on_many_groups([] { plan_cache.clear(); });
  return true;
}();

} // namespace

AsyncTensor redistribute_local(const at::Tensor& local, const SpecPtr& source, const SpecPtr& target) {
  if (source == target) {
    return local;
  }
  return plan_cache.find_or_compile(source, target)->run(local);
}

PlanCacheCounters plan_cache_counters() {
  return plan_cache.counters();
}

} // namespace weft
