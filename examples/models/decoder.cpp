#include "examples/models/decoder.h"

#include <cmath>

namespace models {

namespace {

using weft::Layout;
using weft::Replicate;
using weft::Shard;

// Along dp every parameter is replicated. Along tp a linear layer is cut by its outputs, the next one by its inputs.
const Layout kWhole = {Replicate(), Replicate()};
const Layout kOutputsCut = {Replicate(), Shard(0)};
const Layout kInputsCut = {Replicate(), Shard(1)};

/// Says where activations and their gradients are cut along dp and whole along tp: before a layer that is cut by outputs
/// and after one that is cut by inputs, so that each pair of them communicates once. Elsewhere Weft finds out by itself.
torch::Tensor whole_features(const torch::Tensor& x) {
  return weft::is_dtensor(x) ? weft::redistribute(x, {Shard(0), Replicate()}) : x;
}

torch::Tensor linear_weight(ParameterMaker& make, int64_t outputs, int64_t inputs, const Layout& layout) {
  return make.normal({outputs, inputs}, 1 / std::sqrt(static_cast<double>(inputs)), layout);
}

} // namespace

RmsNorm::RmsNorm(int64_t dim, ParameterMaker& make) {
  weight_ = register_parameter("weight", make.ones({dim}, kWhole));
}

torch::Tensor RmsNorm::forward(const torch::Tensor& x) {
  return whole_features(torch::rms_norm(x, weight_.sizes(), weight_, 1e-5));
}

Attention::Attention(const DecoderSizes& sizes, ParameterMaker& make) : heads_(sizes.heads) {
  const auto dim = sizes.dim;
  query_ = register_parameter("query", linear_weight(make, dim, dim, kOutputsCut));
  key_ = register_parameter("key", linear_weight(make, dim, dim, kOutputsCut));
  value_ = register_parameter("value", linear_weight(make, dim, dim, kOutputsCut));
  output_ = register_parameter("output", linear_weight(make, dim, dim, kInputsCut));
}

torch::Tensor Attention::split_heads(const torch::Tensor& x) const {
  return x.unflatten(-1, {heads_, x.size(-1) / heads_}).transpose(1, 2);
}

torch::Tensor Attention::forward(const torch::Tensor& x) {
  const auto query = split_heads(torch::linear(x, query_));
  const auto key = split_heads(torch::linear(x, key_));
  const auto value = split_heads(torch::linear(x, value_));
  const auto mixed =
      torch::scaled_dot_product_attention(query, key, value, /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true);
  return torch::linear(mixed.transpose(1, 2).flatten(-2), output_);
}

SwiGlu::SwiGlu(const DecoderSizes& sizes, ParameterMaker& make) {
  gate_ = register_parameter("gate", linear_weight(make, sizes.hidden, sizes.dim, kOutputsCut));
  up_ = register_parameter("up", linear_weight(make, sizes.hidden, sizes.dim, kOutputsCut));
  down_ = register_parameter("down", linear_weight(make, sizes.dim, sizes.hidden, kInputsCut));
}

torch::Tensor SwiGlu::forward(const torch::Tensor& x) {
  return torch::linear(torch::silu(torch::linear(x, gate_)) * torch::linear(x, up_), down_);
}

Block::Block(const DecoderSizes& sizes, ParameterMaker& make)
    : attention_norm_(register_module("attention_norm", std::make_shared<RmsNorm>(sizes.dim, make))),
      attention_(register_module("attention", std::make_shared<Attention>(sizes, make))),
      feed_forward_norm_(register_module("feed_forward_norm", std::make_shared<RmsNorm>(sizes.dim, make))),
      feed_forward_(register_module("feed_forward", std::make_shared<SwiGlu>(sizes, make))) {}

torch::Tensor Block::forward(const torch::Tensor& x) {
  const auto mixed = whole_features(x + attention_->forward(attention_norm_->forward(x)));
  return whole_features(mixed + feed_forward_->forward(feed_forward_norm_->forward(mixed)));
}

Decoder::Decoder(const DecoderSizes& sizes, ParameterMaker make) {
  tokens_ = register_parameter("tokens", make.normal({sizes.vocabulary, sizes.dim}, 1.0, kOutputsCut));
  positions_ = register_parameter("positions", make.normal({sizes.length, sizes.dim}, 0.1, kWhole));
  for (int64_t i = 0; i < sizes.blocks; ++i) {
    blocks_.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>(sizes, make)));
  }
  norm_ = register_module("norm", std::make_shared<RmsNorm>(sizes.dim, make));
  logits_ = register_parameter("logits", linear_weight(make, sizes.vocabulary, sizes.dim, kOutputsCut));
}

torch::Tensor Decoder::forward(const torch::Tensor& tokens) {
  auto x = whole_features(torch::embedding(tokens_, tokens) + positions_);
  for (const auto& block : blocks_) {
    x = block->forward(x);
  }
  return torch::linear(norm_->forward(x), logits_);
}

} // namespace models
