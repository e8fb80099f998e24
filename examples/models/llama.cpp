#include "examples/models/llama.h"

namespace models {

namespace {

torch::nn::LinearOptions without_bias(int64_t inputs, int64_t outputs) {
  return torch::nn::LinearOptions(inputs, outputs).bias(false);
}

} // namespace

Rotations Rotations::of(int64_t length, int64_t head_dim, double base) {
  const auto speeds = torch::pow(base, -torch::arange(0, head_dim, 2, torch::kFloat) / static_cast<double>(head_dim));
  const auto half = torch::outer(torch::arange(length, torch::kFloat), speeds);
  const auto angles = torch::cat({half, half}, -1).unsqueeze(1);
  return {angles.cos(), angles.sin()};
}

torch::Tensor Rotations::turn(const torch::Tensor& x) const {
  const auto halves = x.chunk(2, -1);
  return x * cosines + torch::cat({-halves[1], halves[0]}, -1) * sines;
}

GroupedAttentionImpl::GroupedAttentionImpl(const LlamaSizes& sizes)
    : heads_(sizes.heads),
      kv_heads_(sizes.kv_heads),
      head_dim_(sizes.dim / sizes.heads),
      wq_(without_bias(sizes.dim, heads_ * head_dim_)),
      wk_(without_bias(sizes.dim, kv_heads_ * head_dim_)),
      wv_(without_bias(sizes.dim, kv_heads_ * head_dim_)),
      wo_(without_bias(heads_ * head_dim_, sizes.dim)) {
  register_module("wq", wq_);
  register_module("wk", wk_);
  register_module("wv", wv_);
  register_module("wo", wo_);
}

torch::Tensor GroupedAttentionImpl::forward(const torch::Tensor& x, const Rotations& rotations) {
  const auto query = rotations.turn(wq_(x).unflatten(-1, {heads_, head_dim_})).transpose(1, 2);
  const auto key = rotations.turn(wk_(x).unflatten(-1, {kv_heads_, head_dim_})).transpose(1, 2);
  const auto value = wv_(x).unflatten(-1, {kv_heads_, head_dim_}).transpose(1, 2);
  const auto mixed = torch::scaled_dot_product_attention(
      query, key, value, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true, /*scale=*/std::nullopt,
      /*enable_gqa=*/true);
  return wo_(mixed.transpose(1, 2).flatten(-2));
}

SwiGluImpl::SwiGluImpl(const LlamaSizes& sizes)
    : w1_(without_bias(sizes.dim, sizes.hidden)),
      w2_(without_bias(sizes.hidden, sizes.dim)),
      w3_(without_bias(sizes.dim, sizes.hidden)) {
  register_module("w1", w1_);
  register_module("w2", w2_);
  register_module("w3", w3_);
}

torch::Tensor SwiGluImpl::forward(const torch::Tensor& x) {
  return w2_(torch::silu(w1_(x)) * w3_(x));
}

LlamaBlockImpl::LlamaBlockImpl(const LlamaSizes& sizes)
    : attention_norm_(sizes.dim), attention_(sizes), ffn_norm_(sizes.dim), feed_forward_(sizes) {
  register_module("attention_norm", attention_norm_);
  register_module("attention", attention_);
  register_module("ffn_norm", ffn_norm_);
  register_module("feed_forward", feed_forward_);
}

torch::Tensor LlamaBlockImpl::forward(const torch::Tensor& x, const Rotations& rotations) {
  const auto mixed = x + attention_(attention_norm_(x), rotations);
  return mixed + feed_forward_(ffn_norm_(mixed));
}

LlamaImpl::LlamaImpl(const LlamaSizes& sizes)
    : tok_embeddings_(sizes.vocabulary, sizes.dim),
      norm_(sizes.dim),
      output_(without_bias(sizes.dim, sizes.vocabulary)),
      rotations_(Rotations::of(sizes.length, sizes.dim / sizes.heads)) {
  register_module("tok_embeddings", tok_embeddings_);
  register_module("layers", layers_);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    layers_->push_back(LlamaBlock(sizes));
  }
  register_module("norm", norm_);
  register_module("output", output_);
  register_buffer("cosines", rotations_.cosines);
  register_buffer("sines", rotations_.sines);
}

torch::Tensor LlamaImpl::forward(const torch::Tensor& tokens) {
  const auto length = tokens.size(1);
  const Rotations rotations = {rotations_.cosines.narrow(0, 0, length), rotations_.sines.narrow(0, 0, length)};
  auto x = tok_embeddings_(tokens);
  for (const auto& layer : *layers_) {
    x = layer->as<LlamaBlock>()->forward(x, rotations);
  }
  return output_(norm_(x));
}

} // namespace models
