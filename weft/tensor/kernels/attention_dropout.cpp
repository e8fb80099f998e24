#include "weft/tensor/kernels/attention_dropout.h"

#include <ATen/ATen.h>

#include <limits>

namespace weft {

namespace {

/// What ATen checks before it chooses a kernel, and the separate operators would take.
void check_inputs(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& attn_mask,
    double dropout_p) {
  const auto dtype = query.scalar_type();
  TORCH_CHECK_VALUE(
      dropout_p >= 0 && dropout_p <= 1, "[scaled_dot_product_attention] a dropout_p in [0, 1] is required, but got ",
      dropout_p, ".");
  TORCH_CHECK_VALUE(
      query.dim() >= 2 && key.dim() >= 2 && value.dim() >= 2,
      "[scaled_dot_product_attention] query, key and value of at least two dims are required, but got ", query.sizes(),
      ", ", key.sizes(), " and ", value.sizes(), ".");
  TORCH_CHECK_TYPE(
      key.scalar_type() == dtype && value.scalar_type() == dtype,
      "[scaled_dot_product_attention] query, key and value of one dtype are required, but got ", dtype, ", ",
      key.scalar_type(), " and ", value.scalar_type(), ".");
  if (attn_mask) {
    const auto of_mask = attn_mask->scalar_type();
    TORCH_CHECK_TYPE(
        of_mask == at::kBool || of_mask == at::kFloat || of_mask == dtype,
        "[scaled_dot_product_attention] an attn_mask of bools, floats or the query's dtype is required, but got ",
        of_mask, " for a query of ", dtype, ".");
  }
}

/// A mask to add to the scores, as which bools would count as 0 and 1.
std::optional<at::Tensor> to_add(const std::optional<at::Tensor>& attn_mask, at::ScalarType dtype) {
  if (!attn_mask || attn_mask->scalar_type() != at::kBool) {
    return attn_mask;
  }
  return at::zeros_like(*attn_mask, dtype)
      .masked_fill_(attn_mask->logical_not(), -std::numeric_limits<double>::infinity());
}

} // namespace

at::Tensor attention_with_dropout(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& attn_mask,
    double dropout_p,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa) {
  check_inputs(query, key, value, attn_mask, dropout_p);
  return std::get<0>(at::_scaled_dot_product_attention_math(
      query, key, value, to_add(attn_mask, query.scalar_type()), dropout_p, is_causal, /*dropout_mask=*/{}, scale,
      enable_gqa));
}

} // namespace weft
