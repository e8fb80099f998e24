#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/decompositions/batch_norm_input.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/decompositions/reduced_dims.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/move_observer.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace {

using OptionalTensor = std::optional<at::Tensor>;

constexpr const char* kForward = "aten::native_batch_norm";

/// Whether a local batch norm would be wrong, because no rank has all values of a channel, or would refuse a local
/// tensor without elements.
bool needs_exchange(const TensorSpec& input) {
  return input.dim() >= 2 && c10::multiply_integers(input.sizes()) != 0 &&
      (shards_samples(input) || leaves_a_rank_empty(input));
}

/// A sharded batch is normalized by moments that the ranks exchange. So is a batch whose running statistics have
/// another layout than its channels, because the local operator would update only the statistics of the local channels.
bool exchanges_moments(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  const auto& input = *spec_of(call, operands, "input");
  const auto* running = spec_of(call, operands, "running_mean");
  const bool has_other_layout = running != nullptr && running->layout() != channel_layout(input.layout());
  return needs_exchange(input) || (input.dim() >= 2 && has_other_layout);
}

bool forward_applies(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  return call.boolean("training", /*otherwise=*/true) ? exchanges_moments(call, operands)
                                                      : normalizes_empty_shards(call, operands);
}

/// As exchanges_moments, but for operators that do not write to the running statistics, which may have any layout.
bool functional_applies(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  return call.boolean("training", /*otherwise=*/true) && needs_exchange(*spec_of(call, operands, "input"));
}

/// Mean and variance of every channel over all ranks. The variance is the biased one (divided by the number of
/// samples).
struct Moments {
  at::Tensor mean;
  at::Tensor variance;

  at::Tensor inverse_deviation(double eps) const {
    return (variance + eps).rsqrt();
  }
};

/// Sums of the local values and of their squares. In f64, because the global variance is computed as a difference, of
/// two large numbers if the mean is large. The local moments, from which the sums are computed, have no such
/// difference.
at::Tensor local_sums(const at::Tensor& local) {
  const auto options = local.options().dtype(at::kDouble);
  if (local.numel() == 0) {
    return at::zeros({2, local.size(kChannelDim)}, options);
  }
  const auto values = local.to(accumulation_dtype(local.scalar_type()));
  const auto [local_mean, local_variance] = at::batch_norm_update_stats(values, {}, {}, /*momentum=*/0);
  const auto mean = local_mean.to(at::kDouble);
  return at::stack({mean, local_variance.to(at::kDouble) + mean.square()}) * samples_per_channel(local);
}

/// One all-reduce of two numbers per channel.
Moments exchanged_moments(const at::Tensor& input) {
  const auto& spec = as_dtensor(input)->spec();
  const auto& layout = spec->layout();
  MeshDims sample_mesh_dims;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (layout[m].is_shard() && !is_over_channels(layout[m])) {
      sample_mesh_dims.push_back(m);
    }
  }
  const auto dtype = accumulation_dtype(input.scalar_type());
  const auto channel_spec = TensorSpec::make(spec->mesh(), channel_layout(layout), {input.size(kChannelDim)}, dtype);
  if (!spec->mesh().is_member()) {
    const auto shape = channel_spec->local_shape_and_offset().shape;
    const auto nothing = [&] {
      return make_dtensor(at::empty(shape, as_dtensor(input)->local().options().dtype(dtype)), channel_spec);
    };
    return {nothing(), nothing()};
  }
  auto sums = local_sums(as_dtensor(input)->local());
  if (!sample_mesh_dims.empty()) {
    sums = reduce_implicitly(kForward, sums, spec->mesh(), sample_mesh_dims, ReduceOp::Sum);
  }
  const auto averages = sums / samples_per_channel(input);
  const auto mean = averages[0];
  const auto variance = (averages[1] - mean.square()).clamp_min(0);
  return {make_dtensor(mean.to(dtype), channel_spec), make_dtensor(variance.to(dtype), channel_spec)};
}

/// The same by operators on distributed tensors only, for programs that are recorded: two passes with an all-reduce
/// each.
Moments moments_by_operators(const at::Tensor& input) {
  const auto values = input.to(accumulation_dtype(input.scalar_type()));
  const auto [variance, mean] = at::var_mean(values, sample_dims(input), /*correction=*/0);
  return {mean, variance};
}

/// Statistics and parameters of 16-bit values may be f32; those of other values have the dtype of the values.
void check_dtypes(const at::Tensor& input, std::initializer_list<OptionalTensor> others) {
  const auto dtype = input.scalar_type();
  for (const auto& other : others) {
    const bool fits = !other || !other->defined() || other->scalar_type() == dtype ||
        other->scalar_type() == accumulation_dtype(dtype);
    TORCH_CHECK_TYPE(
        fits, "[batch_norm] weight, bias and running statistics must have the input's dtype ", dtype,
        " (or be f32 with 16-bit values), but got ", other->scalar_type(), ". Convert them.");
  }
}

at::Tensor normalized(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const at::Tensor& mean,
    const at::Tensor& inverse_deviation) {
  const auto scale = weight && weight->defined() ? inverse_deviation * *weight : inverse_deviation;
  const auto shift = bias && bias->defined() ? *bias - mean * scale : -mean * scale;
  const auto output = at::addcmul(per_channel(shift, input), input, per_channel(scale, input));
  return output.to(input.scalar_type()).contiguous(input.suggest_memory_format());
}

at::Tensor updated(const at::Tensor& running, const at::Tensor& latest, double momentum) {
  return running.to(latest.scalar_type()).mul(1 - momentum).add(latest, momentum).to(running.scalar_type());
}

/// The unbiased variance (divided by the number of samples - 1), which the running statistics keep.
at::Tensor estimate(const Moments& moments, const at::Tensor& input) {
  const auto count = static_cast<double>(samples_per_channel(input));
  return moments.variance * (count / (count - 1));
}

void store(const at::Tensor& running, const at::Tensor& values) {
  if (is_dtensor(running)) {
    running.copy_(values);
    return;
  }
  // A plain tensor is equal on every rank and must stay so: it gets the replicated values.
  const auto& mesh = as_dtensor(values)->spec()->mesh();
  running.copy_(as_dtensor(move_implicitly(kForward, values, replicated(mesh)))->local());
}

Moments moments_of(const at::Tensor& input) {
  return is_watched() ? moments_by_operators(input) : exchanged_moments(input);
}

using Normalized = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The results of a batch in training, and the updated running statistics; undefined if the call has none.
struct Trained {
  Normalized results;
  at::Tensor running_mean;
  at::Tensor running_var;
};

Trained train(
    const at::Tensor& given_input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    double momentum,
    double eps) {
  check_dtypes(given_input, {weight, bias, running_mean, running_var});
  const auto input = without_partial(kForward, given_input);
  const auto moments = moments_of(input);
  const auto inverse_deviation = moments.inverse_deviation(eps);
  Trained trained;
  trained.results = {normalized(input, weight, bias, moments.mean, inverse_deviation), moments.mean, inverse_deviation};
  if (running_mean && running_mean->defined()) {
    trained.running_mean = updated(*running_mean, moments.mean, momentum);
  }
  if (running_var && running_var->defined()) {
    trained.running_var = updated(*running_var, estimate(moments, input), momentum);
  }
  return trained;
}

Normalized evaluate(
    const at::Tensor& given_input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const at::Tensor& running_mean,
    const at::Tensor& running_var,
    double eps) {
  check_dtypes(given_input, {weight, bias, running_mean, running_var});
  const auto input = without_partial(kForward, given_input);
  const auto dtype = accumulation_dtype(input.scalar_type());
  const Moments given = {running_mean.to(dtype), running_var.to(dtype)};
  const auto none = running_mean.new_empty({0}, at::dtype(dtype));
  return {normalized(input, weight, bias, given.mean, given.inverse_deviation(eps)), none, none};
}

Normalized batch_norm(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    bool training,
    double momentum,
    double eps) {
  if (!training) {
    return evaluate(input, weight, bias, *running_mean, *running_var, eps);
  }
  const auto trained = train(input, weight, bias, running_mean, running_var, momentum, eps);
  if (trained.running_mean.defined()) {
    store(*running_mean, trained.running_mean);
  }
  if (trained.running_var.defined()) {
    store(*running_var, trained.running_var);
  }
  return trained.results;
}

Normalized batch_norm_in_place(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    at::Tensor& running_mean,
    at::Tensor& running_var,
    bool training,
    double momentum,
    double eps) {
  return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps);
}

Normalized batch_norm_without_running(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    bool training,
    double momentum,
    double eps) {
  return batch_norm(input, weight, bias, {}, {}, training, momentum, eps);
}

Normalized batch_norm_in_evaluation(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const at::Tensor& running_mean,
    const at::Tensor& running_var,
    double /*momentum*/,
    double eps) {
  return evaluate(input, weight, bias, running_mean, running_var, eps);
}

/// The buffer that backends save for backward: empty here.
at::Tensor no_reserve(const at::Tensor& input) {
  return input.new_empty({0}, at::dtype(at::kByte));
}

using NormalizedWithReserve = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

NormalizedWithReserve cudnn_batch_norm(
    const at::Tensor& input,
    const at::Tensor& weight,
    const OptionalTensor& bias,
    const OptionalTensor& running_mean,
    const OptionalTensor& running_var,
    bool training,
    double momentum,
    double eps) {
  return std::tuple_cat(
      batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps),
      std::make_tuple(no_reserve(input)));
}

NormalizedWithReserve batch_norm_with_update(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    at::Tensor& running_mean,
    at::Tensor& running_var,
    double momentum,
    double eps) {
  return std::tuple_cat(
      batch_norm(input, weight, bias, running_mean, running_var, /*training=*/true, momentum, eps),
      std::make_tuple(no_reserve(input)));
}

/// In training: returns the updated running statistics and leaves those of the caller unchanged.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> functional_batch_norm(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const at::Tensor& running_mean,
    const at::Tensor& running_var,
    bool /*training*/,
    double momentum,
    double eps) {
  const auto trained = train(input, weight, bias, running_mean, running_var, momentum, eps);
  return std::tuple_cat(trained.results, std::make_tuple(trained.running_mean, trained.running_var));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> functional_batch_norm_with_update(
    const at::Tensor& input,
    const OptionalTensor& weight,
    const OptionalTensor& bias,
    const at::Tensor& running_mean,
    const at::Tensor& running_var,
    double momentum,
    double eps) {
  const auto trained = train(input, weight, bias, running_mean, running_var, momentum, eps);
  return std::tuple_cat(trained.results, std::make_tuple(no_reserve(input), trained.running_mean, trained.running_var));
}

/// Raises, because torch.nn.SyncBatchNorm exchanges the moments of plain tensors itself.
void refuse_synchronized(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "[", op.schema().name(),
      "] torch.nn.SyncBatchNorm takes plain tensors, but got a distributed one. Use torch.nn.BatchNorm: on distributed "
      "tensors its statistics are those of the global batch.");
}

} // namespace

void add_batch_norm_decompositions(Decompositions& all) {
  add_batch_norm_backward_decompositions(all);
  using c10::KernelFunction;
  const auto add = [&](const char* name, Decomposition::Applies applies, KernelFunction kernel) {
    all.emplace(name, Decomposition{applies, std::move(kernel)});
  };
  add("aten::native_batch_norm", &forward_applies, KernelFunction::makeFromUnboxedFunction(TORCH_FN(batch_norm)));
  add("aten::_native_batch_norm_legit", &forward_applies,
      KernelFunction::makeFromUnboxedFunction(TORCH_FN(batch_norm_in_place)));
  add("aten::_native_batch_norm_legit.no_stats", &forward_applies,
      KernelFunction::makeFromUnboxedFunction(TORCH_FN(batch_norm_without_running)));
  add("aten::_native_batch_norm_legit_no_training", &normalizes_empty_shards,
      KernelFunction::makeFromUnboxedFunction(TORCH_FN(batch_norm_in_evaluation)));
  add("aten::cudnn_batch_norm", &forward_applies, KernelFunction::makeFromUnboxedFunction(TORCH_FN(cudnn_batch_norm)));
  add("aten::_batch_norm_with_update", &forward_applies,
      KernelFunction::makeFromUnboxedFunction(TORCH_FN(batch_norm_with_update)));
  add("aten::_native_batch_norm_legit_functional", &functional_applies,
      KernelFunction::makeFromUnboxedFunction(TORCH_FN(functional_batch_norm)));
  add("aten::_batch_norm_with_update_functional", &functional_applies,
      KernelFunction::makeFromUnboxedFunction(TORCH_FN(functional_batch_norm_with_update)));
  for (const auto* name :
       {"aten::batch_norm_stats", "aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts",
        "aten::batch_norm_elemt", "aten::batch_norm_backward_reduce", "aten::batch_norm_backward_elemt"}) {
    add(
        name, [](const OpCall&, c10::ArrayRef<SpecPtr>) { return true; },
        KernelFunction::makeFromBoxedFunction<&refuse_synchronized>());
  }
}

} // namespace weft
