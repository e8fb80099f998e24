#pragma once

#include "examples/models/parameter_maker.h"

#include <torch/nn/module.h>

#include <memory>
#include <vector>

namespace models {

struct DecoderSizes {
  int64_t vocabulary = 64;
  int64_t length = 16; // of a sequence
  int64_t dim = 32;
  int64_t heads = 4;
  int64_t hidden = 96; // between the two linear layers of a block
  int64_t blocks = 2;
};

/// Normalized by the root of the mean square. Its weight is whole on every rank.
class RmsNorm : public torch::nn::Module {
 public:
  RmsNorm(int64_t dim, ParameterMaker& make);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor weight_;
};

/// Causal self-attention; along tp every rank has some of the heads.
class Attention : public torch::nn::Module {
 public:
  Attention(const DecoderSizes& sizes, ParameterMaker& make);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor split_heads(const torch::Tensor& x) const;

  int64_t heads_;
  torch::Tensor query_;
  torch::Tensor key_;
  torch::Tensor value_;
  torch::Tensor output_;
};

/// silu(gate x) * (up x), then down; along tp every rank has some of the hidden features.
class SwiGlu : public torch::nn::Module {
 public:
  SwiGlu(const DecoderSizes& sizes, ParameterMaker& make);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor gate_;
  torch::Tensor up_;
  torch::Tensor down_;
};

class Block : public torch::nn::Module {
 public:
  Block(const DecoderSizes& sizes, ParameterMaker& make);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  std::shared_ptr<RmsNorm> attention_norm_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<RmsNorm> feed_forward_norm_;
  std::shared_ptr<SwiGlu> feed_forward_;
};

/// A small decoder as language models are built of. Ordinary LibTorch code: the same for plain and for distributed
/// tensors. The layouts that its parameters ask for are those of mesh(dp, tp).
class Decoder : public torch::nn::Module {
 public:
  Decoder(const DecoderSizes& sizes, ParameterMaker make);

  /// Tokens [batch, length] to the logits [batch, length, vocabulary] of the tokens that follow.
  torch::Tensor forward(const torch::Tensor& tokens);

 private:
  torch::Tensor tokens_;
  torch::Tensor positions_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<RmsNorm> norm_;
  torch::Tensor logits_;
};

} // namespace models
