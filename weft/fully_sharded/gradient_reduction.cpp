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
    : parameters_(parameters), op_(op), votes_(votes), replicate_dim_(replicate_dim), terms_(parameters.size()) {
  for (int64_t m = 0; m < parameters_.mesh().ndim(); ++m) {
    if (m != parameters_.mesh_dim() && m != replicate_dim_) {
      other_dims_.push_back(m);
    }
  }
  const auto members = parameters_.group()->size();
  buffer_.emplace(
      begin_for(members), at::TensorOptions().dtype(dtype).device(c10::Device(parameters.mesh().device_type())));
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
  for (int64_t member = 0; member < parameters_.group()->size(); ++member) {
    const auto rows = parameters_.rows(number, member);
    if (rows.length == 0) {
      continue;
    }
    const auto given = local.narrow(0, rows.begin, rows.length);
    const auto place = buffer_->view(begin_for(member) + parameters_.begin_in_range(number, member), given.sizes());
    term.before ? place.add_(given) : place.copy_(given);
  }
  term.before = before;
}

bool GradientReduction::is_empty() const {
  return std::none_of(terms_.begin(), terms_.end(), [](const Term& term) { return term.before.has_value(); });
}

void GradientReduction::complete() {
  for (int64_t member = 0; member < parameters_.group()->size(); ++member) {
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
      for (size_t k = 0; votes_ && k < terms_.size(); ++k) {
        if (!terms_[k].before) {
          continue;
        }
        const auto votes =
            rest.slice(0, length - end - votes_length() + static_cast<int64_t>(k * votes_per_parameter()));
        votes[0].fill_(1);
        for (size_t i = 0; i < other_dims_.size(); ++i) {
          votes[static_cast<int64_t>(i) + 1].fill_((*terms_[k].before)[other_dims_[i]].is_partial());
        }
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
  pending_.wait();
  pending_ = Pending();
  buffer_->release();
  if (votes_ && reduced_.is_cpu() && !given_votes_.defined()) {
    count_votes();
  }
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

double GradientReduction::share(size_t parameter, size_t vote) const {
  return given_votes_[static_cast<int64_t>(parameter * votes_per_parameter() + vote)].item<double>();
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
  for (size_t i = 0; given_votes_.defined() && i < other_dims_.size(); ++i) {
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
  // Without a vote every parameter gets a gradient where members compute by themselves: what the others have is unknown.
  const auto& term = terms_[number];
  const bool has_gradient =
      given_votes_.defined() ? share(number, 0) > 0 : term.before.has_value() || op_ == ReduceOp::Avg;
  if (!has_gradient) {
    return {};
  }
  const auto& spec = parameters_.spec(number);
  const auto own = parameters_.group()->rank();
  const auto shape = spec->local_shape_and_offset().shape;
  auto local = reduced_.narrow(0, parameters_.begin_in_range(number, own), c10::multiply_integers(shape)).view(shape);
  const auto layout = layout_of_gradient(number);
  return make_dtensor(local.to(spec->dtype()), spec->with(layout));
}

} // namespace weft
