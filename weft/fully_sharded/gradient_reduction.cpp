#include "weft/fully_sharded/gradient_reduction.h"

#include "weft/comm/subject_scope.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace weft {

GradientReduction::GradientReduction(
    FlatParameters& parameters,
    ReduceOp op,
    at::ScalarType dtype,
    bool votes,
    const std::shared_ptr<BufferPool>& pool,
    std::optional<int64_t> replicate_dim)
    : parameters_(parameters), op_(op), replicate_dim_(replicate_dim), terms_(parameters.size()) {
  const auto replicas = replicate_dim ? parameters_.mesh().size(*replicate_dim) : 1;
  votes_ = votes && members() * replicas > 1; // a single member knows what it has
  for (int64_t m = 0; m < parameters_.mesh().ndim(); ++m) {
    if (m != parameters_.mesh_dim() && m != replicate_dim_) {
      other_dims_.push_back(m);
    }
  }
  buffer_.emplace(
      begin_for(members()), at::TensorOptions().dtype(dtype).device(c10::Device(parameters.mesh().device_type())));
  buffer_->take(pool);
}

int64_t GradientReduction::length_for(int64_t member) const {
  return parameters_.range_length(member) + votes_length();
}

int64_t GradientReduction::begin_for(int64_t member) const {
  int64_t begin = 0;
  for (int64_t before = 0; before < member; ++before) {
    begin += length_for(before);
  }
  return begin;
}

void GradientReduction::add(size_t number, const at::Tensor& local, const Layout& before) {
  const at::AutoGradMode no_graph(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto& term = terms_[number];
  const auto all = parameters_.rows_in_front(number, local);
  for (int64_t member = 0; member < members(); ++member) {
    const auto rows = parameters_.rows(number, member);
    if (rows.length == 0) {
      continue;
    }
    const auto given = all.narrow(0, rows.begin, rows.length);
    const auto place = buffer_->view(begin_for(member) + parameters_.begin_in_range(number, member), given.sizes());
    term.before ? place.add_(given) : place.copy_(given);
  }
  term.before = before;
}

void GradientReduction::complete() {
  for (int64_t member = 0; member < members(); ++member) {
    int64_t end = 0;
    for (size_t k = 0; k < terms_.size(); ++k) {
      const auto shape = parameters_.gathered_shape(k);
      const auto rows = parameters_.rows(k, member).length;
      const auto begin = parameters_.begin_in_range(k, member);
      const auto elements = rows == 0 ? 0 : c10::multiply_integers(shape) / shape[0] * rows;
      // The gap before an aligned parameter is part of the range.
      const auto from = terms_[k].before || rows == 0 ? begin : begin + elements;
      if (rows > 0 && from > end) {
        buffer_->view(begin_for(member) + end, {from - end}).zero_();
      }
      end = rows > 0 ? begin + elements : end;
    }
    if (const auto length = length_for(member); end < length) {
      auto rest = buffer_->view(begin_for(member) + end, {length - end});
      rest.zero_();
      give_votes(rest.narrow(0, length - end - votes_length(), votes_length()));
    }
  }
}

void GradientReduction::give_votes(const at::Tensor& votes) const {
  if (!votes_) {
    return;
  }
  const auto table = votes.view({static_cast<int64_t>(terms_.size()), static_cast<int64_t>(votes_per_parameter())});
  const auto is_given = [&](int64_t k, int64_t vote) {
    const auto& before = terms_[k].before;
    return before && (vote == 0 || (*before)[other_dims_[vote - 1]].is_partial());
  };
  // One kernel for consecutive parameters: mostly all have a term.
  for (int64_t vote = 0; vote < table.size(1); ++vote) {
    for (int64_t k = 0, end = 0; k < table.size(0); k = end + 1) {
      for (end = k; end < table.size(0) && is_given(end, vote); ++end) {
      }
      if (end > k) {
        table.narrow(0, k, end - k).select(1, vote).fill_(1);
      }
    }
  }
}

void GradientReduction::start() {
  const at::AutoGradMode no_graph(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const OperatorScope scope("fully_shard");
  const SubjectScope subject_scope(parameters_.subject());
  complete();
  const auto& group = parameters_.group();
  std::vector<at::Tensor> inputs;
  for (int64_t member = 0; member < group->size(); ++member) {
    inputs.push_back(buffer_->view(begin_for(member), {length_for(member)}));
  }
  reduced_ = at::empty({length_for(group->rank())}, buffer_->tensor().options());
  pending_ = group->reduce_scatter(inputs, reduced_, op_);
}

void GradientReduction::wait() {
  done_.precede_current();
  if (!buffer_->has_memory()) {
    return; // it is done
  }
  pending_.wait();
  pending_ = Pending();
  buffer_->release();
  if (votes_) {
    count_votes();
  }
  done_ = StreamPoint::now(reduced_.device());
}

void GradientReduction::offload() {
  if (!parameters_.offload() || offloaded_.defined()) {
    return;
  }
  const at::AutoGradMode no_graph(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const SideStreamScope side(reduced_.device());
  offloaded_ = at::empty(
      reduced_.sizes(), reduced_.options().device(at::kCPU).pinned_memory(parameters_.offload()->pins_memory));
  offloaded_.copy_(reduced_, /*non_blocking=*/true);
  done_ = StreamPoint::now(reduced_.device());
}

at::Tensor GradientReduction::take_unseen() {
  const at::AutoGradMode no_graph(false);
  const auto length = parameters_.range_length(parameters_.group()->rank());
  return std::exchange(is_seen_, true) ? at::Tensor() : reduced_.narrow(0, 0, length);
}

void GradientReduction::count_votes() {
  const at::AutoGradMode no_graph(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto votes = reduced_.narrow(0, reduced_.numel() - votes_length(), votes_length());
  if (replicate_dim_) {
    const OperatorScope scope("fully_shard");
    const SubjectScope subject_scope(parameters_.subject());
    const auto& mesh = parameters_.mesh();
    auto of_replicas = at::empty_like(votes);
    Communicator::of(mesh).group(mesh, {*replicate_dim_})->all_reduce(votes, of_replicas, ReduceOp::Sum).wait();
    votes = of_replicas;
  }
  given_votes_ = votes;
}

bool GradientReduction::reads_votes(size_t number) const {
  const bool is_agreed = other_dims_.empty() || parameters_.term_layout(number);
  return votes_ && (reduced_.is_cpu() || !terms_[number].before || !is_agreed);
}

double GradientReduction::share(size_t parameter, size_t vote) const {
  read_votes_ = read_votes_.defined() ? read_votes_ : given_votes_.cpu();
  return read_votes_[static_cast<int64_t>(parameter * votes_per_parameter() + vote)].item<double>();
}

Layout GradientReduction::layout_of_gradient(size_t number) const {
  const auto& spec = *parameters_.spec(number);
  const auto& before = terms_[number].before;
  auto layout = spec.layout();
  // Of own data that is so also where another member alone has a term.
  if (op_ == ReduceOp::Avg && replicate_dim_) {
    layout = layout.with(*replicate_dim_, Partial(ReduceOp::Avg));
  }
  for (int64_t m = 0; before && m < layout.ndim(); ++m) {
    layout = (*before)[m].is_partial() && layout[m].is_replicate() ? layout.with(m, (*before)[m]) : layout;
  }
  for (size_t i = 0; reads_votes(number) && i < other_dims_.size(); ++i) {
    const auto m = other_dims_[i];
    const auto partial = share(number, i + 1);
    TORCH_CHECK_VALUE(
        partial == 0 || partial == share(number, 0), "[fully_shard] the gradient of a parameter must be partial on ",
        spec.mesh().name(m), " on all ranks that have one or on none, but that of ", spec,
        " is so on some alone. Let all ranks compute with it in the same layouts.");
    if (partial > 0 && layout[m].is_replicate()) {
      layout = layout.with(m, Partial());
    }
  }
  return layout;
}

at::Tensor GradientReduction::gradient(size_t number) const {
  const at::AutoGradMode no_graph(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const bool has_gradient = terms_[number].before || (votes_ && share(number, 0) > 0);
  if (!has_gradient) {
    return {};
  }
  if (offloaded_.defined()) {
    done_.synchronize();
  }
  const auto& values = offloaded_.defined() ? offloaded_ : reduced_;
  const auto& spec = parameters_.spec(number);
  const auto own = parameters_.group()->rank();
  auto shape = c10::DimVector(parameters_.gathered_shape(number));
  shape[0] = parameters_.row_count(number, own);
  const auto rows = values.narrow(0, parameters_.begin_in_range(number, own), c10::multiply_integers(shape));
  const auto local = parameters_.rows_in_place(number, rows.view(shape));
  const auto layout = layout_of_gradient(number);
  if (votes_) {
    parameters_.agree_on_terms(number, layout);
  }
  return make_dtensor(local.to(spec->dtype()), spec->with(layout));
}

} // namespace weft
