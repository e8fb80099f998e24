#include "examples/models/gpt2.h"

namespace models {

namespace {

torch::nn::LayerNormOptions over(int64_t dim) {
  return torch::nn::LayerNormOptions({dim});
}

} // namespace

TiedLinearImpl::TiedLinearImpl(const torch::Tensor& tied)
    : LinearImpl(torch::nn::LinearOptions(tied.size(1), tied.size(0)).bias(false)) {
  weight = parameters_["weight"] = tied;
}

JointAttentionImpl::JointAttentionImpl(const Gpt2Sizes& sizes)
    : heads_(sizes.heads), c_attn_(sizes.dim, 3 * sizes.dim), c_proj_(sizes.dim, sizes.dim), dropout_(sizes.dropout) {
  register_module("c_attn", c_attn_);
  register_module("c_proj", c_proj_);
  register_module("dropout", dropout_);
}

torch::Tensor JointAttentionImpl::forward(const torch::Tensor& x) {
  auto parts = c_attn_(x).chunk(3, -1);
  for (auto& part : parts) {
    part = part.unflatten(-1, {heads_, part.size(-1) / heads_}).transpose(1, 2);
  }
  const auto mixed = torch::scaled_dot_product_attention(
      parts[0], parts[1], parts[2], /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
  return dropout_(c_proj_(mixed.transpose(1, 2).flatten(-2)));
}

GeluLayersImpl::GeluLayersImpl(const Gpt2Sizes& sizes)
    : c_fc_(sizes.dim, 4 * sizes.dim), c_proj_(4 * sizes.dim, sizes.dim), dropout_(sizes.dropout) {
  register_module("c_fc", c_fc_);
  register_module("c_proj", c_proj_);
  register_module("dropout", dropout_);
}

torch::Tensor GeluLayersImpl::forward(const torch::Tensor& x) {
  return dropout_(c_proj_(torch::gelu(c_fc_(x), "tanh")));
}

Gpt2BlockImpl::Gpt2BlockImpl(const Gpt2Sizes& sizes)
    : ln_1_(over(sizes.dim)), attn_(sizes), ln_2_(over(sizes.dim)), mlp_(sizes) {
  register_module("ln_1", ln_1_);
  register_module("attn", attn_);
  register_module("ln_2", ln_2_);
  register_module("mlp", mlp_);
}

torch::Tensor Gpt2BlockImpl::forward(const torch::Tensor& x) {
  const auto mixed = x + attn_(ln_1_(x));
  return mixed + mlp_(ln_2_(mixed));
}

Gpt2Impl::Gpt2Impl(const Gpt2Sizes& sizes)
    : wte_(sizes.vocabulary, sizes.dim),
      wpe_(sizes.length, sizes.dim),
      dropout_(sizes.dropout),
      ln_f_(over(sizes.dim)),
      lm_head_(wte_->weight),
      positions_(torch::arange(sizes.length)) {
  register_module("wte", wte_);
  register_module("wpe", wpe_);
  register_module("dropout", dropout_);
  register_module("h", h_);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    h_->push_back(Gpt2Block(sizes));
  }
  register_module("ln_f", ln_f_);
  register_module("lm_head", lm_head_);
  register_buffer("positions", positions_);
}

torch::Tensor Gpt2Impl::forward(const torch::Tensor& tokens) {
  auto x = dropout_(wte_(tokens) + wpe_(positions_.narrow(0, 0, tokens.size(1))));
  for (const auto& block : *h_) {
    x = block->as<Gpt2Block>()->forward(x);
  }
  return lm_head_(ln_f_(x));
}

} // namespace models
