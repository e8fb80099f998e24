#include "weft/nn/cross_entropy.h"

#include "weft/core/layout_algebra.h"
#include "weft/core/traced_tensor.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cross_entropy_loss_compositeimplicitautograd_dispatch.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kName = "aten::cross_entropy_loss";

/// The logits' layout with plain shards of the classes: no partial placements, no strided or ragged ones.
Layout class_layout(const TensorSpec& spec, int64_t class_dim) {
  auto layout = spec.layout();
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    const auto& placement = layout[m];
    const bool is_irregular = placement.is_shard(class_dim) && !placement.is_plain_shard();
    layout = placement.is_partial() || is_irregular ? layout.with(m, Shard(class_dim)) : layout;
  }
  return layout;
}

/// The layout of a tensor with the logits' dims except the classes.
Layout row_layout(const Layout& logits, int64_t class_dim) {
  return map_shards(without_partial(logits), [&](const Placement& p) {
    return p.is_shard(class_dim) ? Replicate() : p.along(p.dim() - (p.dim() > class_dim ? 1 : 0));
  });
}

/// The mesh dims that shard the classes, or those that shard rows.
MeshDims sharding_dims(const TensorSpec& spec, int64_t class_dim, bool classes) {
  MeshDims dims;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    const auto& placement = spec.layout()[m];
    if (spec.mesh().size(m) > 1 && placement.is_shard() && (placement.dim() == class_dim) == classes) {
      dims.push_back(m);
    }
  }
  return dims;
}

/// Redistributes an argument other than the logits to the layout that is needed; a plain one counts as replicated.
at::Tensor placed(const at::Tensor& tensor, const DeviceMesh& mesh, const Layout& layout) {
  const auto distributed = is_dtensor(tensor) ? tensor : from_local(tensor, mesh, replicated(mesh));
  const auto& other = as_dtensor(distributed)->spec()->mesh();
  TORCH_CHECK_VALUE(
      other == mesh, "[", kName, "] all tensors must be on the same mesh, but got ", mesh.to_string(), " and ",
      other.to_string(), ". Put them on one mesh through full_tensor.");
  return move_implicitly(kName, distributed, layout);
}

/// This rank's computation of a call, in plain tensors. Those with a number per row have the logits' dims, with one
/// class.
class LocalCrossEntropy {
 public:
  /// `target` has the layout of the rows, or of the logits if it has probabilities; `weight` is replicated.
  LocalCrossEntropy(const CrossEntropyCall& call, at::Tensor weight)
      : call_(call),
        spec_(*as_dtensor(call.logits)->spec()),
        logits_(checked_values(kName, call.logits).local()),
        target_(checked_values(kName, call.target).local()),
        weight_(std::move(weight)),
        class_dim_(call.class_dim()),
        begin_(spec_.local_shape_and_offset().offset[class_dim_]),
        dtype_(at::toOpMathType(call.has_probabilities() ? at::result_type(logits_, target_) : logits_.scalar_type())) {
    if (weight_.defined()) {
      weight_ = weight_.to(dtype_);
    }
    if (!call.has_probabilities()) {
      find_targets();
    }
  }

  struct Result {
    at::Tensor loss;      // per row, or reduced over all rows
    at::Tensor log_sum;   // per row: the logarithm of the sum of exponentials
    at::Tensor divisor;   // of a mean; otherwise undefined
    at::Tensor weighting; // per row: the sum of its weighted probabilities
  };

  Result forward() const {
    const auto greatest = reduced(greatest_logit(), ReduceOp::Max);
    auto below = at::sub(logits_.to(dtype_), greatest); // at most 0, so that the exponentials are finite
    std::vector<at::Tensor> terms;
    if (call_.has_probabilities()) {
      const auto weights = weighted_probabilities();
      terms = {weights.mul(below).sum(class_dim_, true), weights.sum(class_dim_, true)};
    } else {
      terms = {picked(below)};
      if (call_.label_smoothing > 0) {
        terms.push_back((weight_.defined() ? below.mul(class_weights()) : below).sum(class_dim_, true));
      }
    }
    terms.push_back(below.exp_().sum(class_dim_, true));
    const auto sums = reduced(at::stack(terms), ReduceOp::Sum).unbind();
    const auto log_of_sum = sums.back().log();
    Result result;
    result.log_sum = greatest + log_of_sum;
    at::Tensor rows;
    if (call_.has_probabilities()) {
      result.weighting = sums[1];
      rows = sums[1].mul(log_of_sum).sub_(sums[0]);
    } else {
      result.weighting = weighting();
      rows = result.weighting.mul(log_of_sum).sub_(target_weighting().mul_(sums[0]));
      if (call_.label_smoothing > 0) {
        rows.sub_(sums[1], call_.label_smoothing / class_count());
      }
      rows.masked_fill_(ignored_, 0);
    }
    reduce_rows(rows, result);
    return result;
  }

  /// `gradient` is that of the loss: one number per row, or one number.
  at::Tensor logits_gradient(const at::Tensor& gradient, const Result& saved) const {
    const auto of_row = row_gradient(gradient, saved.divisor);
    auto result = at::sub(logits_.to(dtype_), saved.log_sum).exp_().mul_(of_row * saved.weighting);
    if (call_.has_probabilities()) {
      result.sub_(weighted_probabilities().mul_(of_row));
    } else {
      if (call_.label_smoothing > 0) {
        const auto smoothed = of_row * (call_.label_smoothing / class_count());
        weight_.defined() ? result.sub_(smoothed * class_weights()) : result.sub_(smoothed);
      }
      if (result.size(class_dim_) > 0) {
        result.scatter_add_(class_dim_, own_, (of_row * target_weighting()).neg_().masked_fill_(foreign_, 0));
      }
    }
    return result.to(logits_.scalar_type()).contiguous();
  }

  /// The gradient of the probabilities.
  at::Tensor target_gradient(const at::Tensor& gradient, const Result& saved) const {
    const auto of_row = row_gradient(gradient, saved.divisor);
    auto result = at::sub(saved.log_sum, logits_.to(dtype_)).mul_(of_row * (1 - call_.label_smoothing));
    if (weight_.defined()) {
      result.mul_(class_weights());
    }
    return result.to(target_.scalar_type()).contiguous();
  }

 private:
  double class_count() const {
    return static_cast<double>(call_.class_count());
  }
  bool has_mean() const {
    return call_.reduction == at::Reduction::Mean;
  }

  /// Reduces over the ranks that hold other classes of the same rows.
  at::Tensor reduced(const at::Tensor& numbers, ReduceOp op) const {
    const auto dims = sharding_dims(spec_, class_dim_, /*classes=*/true);
    return dims.empty() ? numbers : reduce_implicitly(kName, numbers, spec_.mesh(), dims, op);
  }

  void find_targets() {
    target_ = target_.unsqueeze(class_dim_);
    ignored_ = target_.eq(call_.ignore_index);
    invalid_ = target_.lt(0).logical_or_(target_.ge(call_.class_count())).logical_and_(ignored_.logical_not());
    own_ = target_.sub(begin_);
    foreign_ = own_.lt(0).logical_or_(own_.ge(logits_.size(class_dim_))).logical_or_(ignored_);
    own_.masked_fill_(foreign_, 0);
  }

  at::Tensor greatest_logit() const {
    if (logits_.size(class_dim_) > 0) {
      return logits_.amax(class_dim_, /*keepdim=*/true).to(dtype_);
    }
    auto sizes = logits_.sizes().vec();
    sizes[class_dim_] = 1;
    return at::full(sizes, -std::numeric_limits<double>::infinity(), logits_.options().dtype(dtype_));
  }

  /// The weights of this rank's classes, broadcastable against the logits.
  at::Tensor class_weights() const {
    std::vector<int64_t> sizes(logits_.dim(), 1);
    sizes[class_dim_] = logits_.size(class_dim_);
    return weight_.narrow(0, std::min(begin_, weight_.size(0)), sizes[class_dim_]).view(sizes);
  }

  at::Tensor weighted_probabilities() const {
    auto result = target_.to(dtype_, /*non_blocking=*/false, /*copy=*/true);
    if (call_.label_smoothing > 0) {
      result.mul_(1 - call_.label_smoothing).add_(call_.label_smoothing / class_count());
    }
    return weight_.defined() ? result.mul_(class_weights()) : result;
  }

  /// The element of each row at its target class, 0 if another rank holds that class.
  at::Tensor picked(const at::Tensor& numbers) const {
    return numbers.size(class_dim_) > 0 ? numbers.gather(class_dim_, own_).masked_fill_(foreign_, 0)
                                        : at::zeros(target_.sizes(), numbers.options());
  }

  /// The weight of each row's target class, 0 if the row is ignored.
  at::Tensor target_weight() const {
    const auto counts = ignored_.logical_not();
    if (!weight_.defined()) {
      return counts.to(dtype_);
    }
    const auto valid = target_.masked_fill(ignored_.logical_or(invalid_), 0);
    return weight_.index_select(0, valid.flatten()).view(target_.sizes()).mul_(counts);
  }

  at::Tensor target_weighting() const {
    return target_weight().mul_(1 - call_.label_smoothing);
  }

  /// The sum over all classes of their weights after label smoothing.
  at::Tensor weighting() const {
    auto result = target_weighting();
    if (call_.label_smoothing > 0) {
      weight_.defined() ? result.add_(weight_.sum(), call_.label_smoothing / class_count())
                        : result.add_(call_.label_smoothing);
    }
    return result.masked_fill_(ignored_, 0);
  }

  at::Tensor row_gradient(const at::Tensor& gradient, const at::Tensor& divisor) const {
    auto of_row = gradient.to(dtype_);
    if (call_.reduction == at::Reduction::None) {
      of_row = of_row.unsqueeze(class_dim_);
    }
    of_row = divisor.defined() ? of_row / divisor : of_row;
    // Ignored rows have a zero gradient, even if all rows are ignored and their mean is nan.
    return ignored_.defined() ? at::where(ignored_, at::zeros({}, of_row.options()), of_row) : of_row;
  }

  /// Raises the error of a single device for invalid targets, on every rank alike. On other devices than the CPU, where
  /// reading the count would stall the device, the loss becomes nan. A recorded program, whose count is not known yet,
  /// raises when it runs.
  void check_targets(const at::Tensor& invalid_count, at::Tensor& loss) const {
    if (is_recorded_by_operators(logits_)) {
      at::_assert_async(
          invalid_count.eq(0),
          c10::str(
              "[", kName, "] targets must be classes from 0 to ", call_.class_count() - 1, " or ignore_index (",
              call_.ignore_index, "), but some are neither (logits ", spec_, ")."));
      return;
    }
    if (!logits_.is_cpu()) {
      loss =
          loss + at::where(invalid_count.gt(0), std::numeric_limits<double>::quiet_NaN(), 0.0).to(loss.scalar_type());
      return;
    }
    const auto count = invalid_count.item<int64_t>();
    TORCH_CHECK_INDEX(
        count == 0, "[", kName, "] targets must be classes from 0 to ", call_.class_count() - 1, " or ignore_index (",
        call_.ignore_index, "), but ", count, " of them ", count == 1 ? "is" : "are", " neither (logits ", spec_, ").");
  }

  /// Computes the loss from the losses of the rows, and the divisor of a mean.
  void reduce_rows(const at::Tensor& rows, Result& result) const {
    const bool has_classes = !call_.has_probabilities();
    std::vector<at::Tensor> numbers;
    if (call_.reduction == at::Reduction::None) {
      result.loss = rows.squeeze(class_dim_);
    } else {
      numbers.push_back(rows.sum());
    }
    if (has_mean() && has_classes) {
      numbers.push_back(target_weight().sum());
    }
    if (has_classes) {
      numbers.push_back(invalid_.sum().to(dtype_));
    }
    const auto dims = sharding_dims(spec_, class_dim_, /*classes=*/false);
    if (!dims.empty() && !numbers.empty()) {
      numbers = reduce_implicitly(kName, at::stack(numbers), spec_.mesh(), dims, ReduceOp::Sum).unbind();
    }
    if (call_.reduction != at::Reduction::None) {
      result.loss = numbers[0];
    }
    if (has_classes) {
      check_targets(numbers.back(), result.loss);
    }
    if (has_mean()) {
      result.divisor = has_classes
          ? numbers[1]
          : at::scalar_tensor(static_cast<double>(spec_.numel()) / class_count(), rows.options());
      result.loss = result.loss / result.divisor;
    }
  }

  const CrossEntropyCall& call_;
  const TensorSpec& spec_;
  at::Tensor logits_;
  at::Tensor target_;
  at::Tensor weight_;
  int64_t class_dim_;
  int64_t begin_; // the first class of this rank
  at::ScalarType dtype_;
  // Per row, if targets are classes.
  at::Tensor ignored_;
  at::Tensor invalid_; // the target is neither ignored nor a class
  at::Tensor own_;     // the class, counted from this rank's first class; 0 if foreign
  at::Tensor foreign_; // the target is not among this rank's classes
};

/// Gradients that can be differentiated again: those of the loss as ATen composes it from other operators. The loss is
/// computed from aliases of the inputs. Otherwise a target that was computed from the logits, as in `cross_entropy(x,
/// x.softmax(-1))`, would add to the gradient of the logits here, and autograd would add it again from the gradient of
/// the target.
variable_list differentiable_gradients(const CrossEntropyCall& call, const at::Tensor& gradient) {
  const auto logits = call.logits.view_as(call.logits);
  const auto target = call.target.view_as(call.target);
  const auto loss = at::compositeimplicitautograd::cross_entropy_loss(
      logits, target, call.weight, call.reduction, call.ignore_index, call.label_smoothing);
  variable_list results;
  for (const auto& input : {logits, target}) {
    results.push_back(
        input.requires_grad()
            ? torch::autograd::grad({loss}, {input}, {gradient}, /*retain_graph=*/true, /*create_graph=*/true)[0]
            : at::Tensor());
  }
  return results;
}

struct ParallelCrossEntropy : torch::autograd::Function<ParallelCrossEntropy> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& logits,
      const at::Tensor& target,
      const std::optional<at::Tensor>& weight,
      int64_t reduction,
      int64_t ignore_index,
      double label_smoothing) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const CrossEntropyCall call{logits, target, weight, reduction, ignore_index, label_smoothing};
    const auto result = LocalCrossEntropy(call, weight ? as_dtensor(*weight)->local() : at::Tensor()).forward();
    context->save_for_backward(
        {logits, target, weight.value_or(at::Tensor()), result.log_sum, result.divisor, result.weighting});
    context->saved_data["reduction"] = reduction;
    context->saved_data["ignore_index"] = ignore_index;
    context->saved_data["label_smoothing"] = label_smoothing;
    const auto& spec = *as_dtensor(logits)->spec();
    const bool is_per_row = reduction == at::Reduction::None;
    auto sizes = spec.sizes().vec();
    sizes.erase(sizes.begin() + call.class_dim());
    const auto layout = is_per_row ? row_layout(spec.layout(), call.class_dim()) : replicated(spec.mesh());
    return make_dtensor(
        result.loss.to(loss_dtype(call)).contiguous(),
        TensorSpec::make(
            spec.mesh(), layout, is_per_row ? c10::IntArrayRef(sizes) : c10::IntArrayRef(), loss_dtype(call)));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const CrossEntropyCall call{
        saved[0],
        saved[1],
        saved[2].defined() ? std::optional(saved[2]) : std::nullopt,
        context->saved_data["reduction"].toInt(),
        context->saved_data["ignore_index"].toInt(),
        context->saved_data["label_smoothing"].toDouble()};
    variable_list results(6);
    if (at::GradMode::is_enabled()) {
      auto made = differentiable_gradients(call, gradients[0]);
      results[0] = std::move(made[0]);
      results[1] = std::move(made[1]);
      return results;
    }
    const auto& spec = as_dtensor(call.logits)->spec();
    const bool is_per_row = call.reduction == at::Reduction::None;
    const auto layout = is_per_row ? row_layout(spec->layout(), call.class_dim()) : replicated(spec->mesh());
    const auto gradient = as_dtensor(placed(gradients[0], spec->mesh(), layout))->local();
    const LocalCrossEntropy local(call, call.weight ? as_dtensor(*call.weight)->local() : at::Tensor());
    const LocalCrossEntropy::Result kept{{}, saved[3], saved[4], saved[5]};
    const auto like_logits = [&](const at::Tensor& shard) {
      return make_dtensor(shard, TensorSpec::make(spec->mesh(), spec->layout(), spec->sizes(), shard.scalar_type()));
    };
    if (context->needs_input_grad(0)) {
      results[0] = like_logits(local.logits_gradient(gradient, kept));
    }
    if (context->needs_input_grad(1)) {
      results[1] = like_logits(local.target_gradient(gradient, kept));
    }
    return results;
  }
};

} // namespace

at::Tensor parallel_cross_entropy(const CrossEntropyCall& call) {
  const auto& spec = *as_dtensor(call.logits)->spec();
  const auto layout = class_layout(spec, call.class_dim());
  const auto logits = move_implicitly(kName, call.logits, layout);
  const auto target =
      placed(call.target, spec.mesh(), call.has_probabilities() ? layout : row_layout(layout, call.class_dim()));
  std::optional<at::Tensor> weight;
  if (call.weight && call.weight->defined()) {
    weight = placed(*call.weight, spec.mesh(), replicated(spec.mesh()));
  }
  return ParallelCrossEntropy::apply(logits, target, weight, call.reduction, call.ignore_index, call.label_smoothing);
}

} // namespace weft::nn
