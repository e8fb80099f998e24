#include "weft/tensor/kernels/kernels.h"

#include "weft/core/layout_algebra.h"
#include "weft/core/shared_heads.h"
#include "weft/tensor/dispatch/dtensor_kernel.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/kernels/attention_dropout.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/repeat_interleave_compositeimplicitautograd_dispatch.h>
#include <ATen/ops/scaled_dot_product_attention_compositeimplicitautograd_dispatch.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// For each of this rank's indices along the repeated dim: the index of the element that it repeats.
at::Tensor repeated_positions(const TensorSpec& repeated, int64_t dim, int64_t repeats, const at::Tensor& like) {
  const auto held = repeated.local_shape_and_offset();
  const auto begin = held.offset[dim];
  return at::arange(begin, begin + held.shape[dim], like.options().dtype(at::kLong)).floor_divide_(repeats);
}

/// The gradient of the tensor before it was repeated, from this rank's shard of the gradient: P(sum) over the mesh dims
/// that shard the repeated dim.
at::Tensor gradient_of_repeated(const at::Tensor& gradient, int64_t dim, int64_t repeats) {
  const auto& spec = *as_dtensor(gradient)->spec();
  const auto& local = as_dtensor(gradient)->local();
  auto layout = spec.layout();
  for (const auto m : layout.shard_order(dim)) {
    layout = layout.with(m, Partial());
  }
  auto sizes = spec.sizes().vec();
  sizes[dim] /= repeats;
  auto local_sizes = local.sizes().vec();
  local_sizes[dim] = sizes[dim];
  const auto sum = at::zeros(local_sizes, local.options());
  sum.index_add_(dim, repeated_positions(spec, dim, repeats, local), local);
  return make_dtensor(sum, TensorSpec::make(spec.mesh(), layout, sizes, spec.dtype()));
}

/// Whether a rank's shard of the repeated dim may begin or end among the repeats of one element.
bool splits_repeats(const at::Tensor& gradient, int64_t dim, int64_t repeats) {
  if (!is_dtensor(gradient)) {
    return false;
  }
  const auto& spec = *as_dtensor(gradient)->spec();
  const auto shards = shards_along(dim, spec.layout(), spec.mesh().shape());
  return shards > 1 && gradient.size(dim) / repeats % shards != 0;
}

at::Tensor repeated_backward(const at::Tensor& gradient, int64_t dim, int64_t repeats) {
  if (!at::GradMode::is_enabled() && splits_repeats(gradient, dim, repeats)) {
    return gradient_of_repeated(gradient, dim, repeats);
  }
  return gradient.unflatten(dim, {gradient.size(dim) / repeats, repeats}).sum(dim + 1);
}

struct RepeatInterleave : torch::autograd::Function<RepeatInterleave> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& self, int64_t repeats, int64_t dim) {
    const at::AutoDispatchBelowADInplaceOrView by_rules;
    context->saved_data["repeats"] = repeats;
    context->saved_data["dim"] = dim;
    return at::compositeimplicitautograd::repeat_interleave(self, repeats, dim);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto repeats = context->saved_data["repeats"].toInt();
    const auto dim = context->saved_data["dim"].toInt();
    return {repeated_backward(gradients[0], dim, repeats), at::Tensor(), at::Tensor()};
  }
};

at::Tensor repeat_interleave(
    const at::Tensor& self,
    c10::SymInt repeats,
    std::optional<int64_t> dim,
    std::optional<c10::SymInt> output_size) {
  const auto times = repeats.expect_int();
  if (dim && !output_size && self.dim() > 0 && times > 0) {
    return RepeatInterleave::apply(self, times, at::maybe_wrap_dim(*dim, self.dim()));
  }
  return at::compositeimplicitautograd::repeat_interleave_symint(self, std::move(repeats), dim, std::move(output_size));
}

/// Repeats every head of a key for all heads of the query that share it. The result has the query's layout, so that a
/// rank holds only the key heads which its shard of the query needs.
struct HeadsForQuery : torch::autograd::Function<HeadsForQuery> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& key, int64_t repeats, const at::Tensor& query) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->saved_data["repeats"] = repeats;
    const auto& spec = *as_dtensor(key)->spec();
    const auto& layout = as_dtensor(query)->spec()->layout();
    auto sizes = spec.sizes().vec();
    sizes[kHeadDim] *= repeats;
    const auto repeated = TensorSpec::make(spec.mesh(), layout, sizes, spec.dtype());
    const auto& local = checked_values("scaled_dot_product_attention", key).local();
    const auto positions = repeated_positions(*repeated, kHeadDim, repeats, local);
    return make_dtensor(local.index_select(kHeadDim, positions), repeated);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto repeats = context->saved_data["repeats"].toInt();
    return {repeated_backward(gradients[0], kHeadDim, repeats), at::Tensor(), at::Tensor()};
  }
};

/// Whether every rank holds all heads of the key while its shard of the query may begin or end among the heads that
/// share one head of the key.
bool shares_heads(const at::Tensor& query, const at::Tensor& key) {
  if (!is_dtensor(query) || !is_dtensor(key) || query.dim() != 4 || key.dim() != 4) {
    return false;
  }
  const auto& of_query = *as_dtensor(query)->spec();
  const auto& of_key = *as_dtensor(key)->spec();
  const auto& layout = of_query.layout();
  // With a single key head all heads of the query share it, so that there is none to choose.
  return of_query.mesh() == of_key.mesh() && key.size(kHeadDim) > 1 &&
      shards_sharing_heads(
             query.size(kHeadDim), key.size(kHeadDim), layout, of_key.layout(), of_query.mesh().shape()) &&
      of_key.layout() == replicated_where(layout, [&](int64_t m) { return layout[m].is_shard(kHeadDim); });
}

void check_attends_to_dtensors(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& attn_mask) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::scaled_dot_product_attention", "");
  size_t argument = 0;
  for (const auto& tensor : {query, key, value, attn_mask.value_or(at::Tensor())}) {
    if (tensor.defined()) {
      check_may_be_plain(op, argument, tensor);
    }
    ++argument;
  }
}

at::Tensor scaled_dot_product_attention(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& attn_mask,
    double dropout_p,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  if (enable_gqa && shares_heads(query, key) && shares_heads(query, value)) {
    const auto repeats = query.size(kHeadDim) / key.size(kHeadDim);
    const auto like = query.detach();
    return at::scaled_dot_product_attention(
        query, HeadsForQuery::apply(key, repeats, like), HeadsForQuery::apply(value, repeats, like), attn_mask,
        dropout_p, is_causal, scale, /*enable_gqa=*/false);
  }
  if (dropout_p != 0) {
    return attention_with_dropout(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
  }
  std::optional<ReplicatePlainScope> zeros_are_replicated;
  if (query.numel() == 0 || key.numel() == 0 || value.numel() == 0) {
    // ATen then makes plain zeros, which are equal on every rank. Plain tensors of the caller may differ between ranks.
    check_attends_to_dtensors(query, key, value, attn_mask);
    zeros_are_replicated.emplace();
  }
  return at::compositeimplicitautograd::scaled_dot_product_attention(
      query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa);
}

} // namespace

void register_shared_heads(torch::Library& library) {
  library.impl("repeat_interleave.self_int", TORCH_FN(repeat_interleave));
  library.impl("scaled_dot_product_attention", TORCH_FN(scaled_dot_product_attention));
}

} // namespace weft
