#pragma once

#include "weft/nn/parallel.h"
#include "weft/nn/replace_parameters.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

namespace models {

struct Gpt2Sizes {
  int64_t vocabulary = 64;
  int64_t length = 16; // of the longest sequence
  int64_t dim = 32;
  int64_t layers = 2;
  int64_t heads = 4;
  double dropout = 0;
};

/// A linear layer with the weight of another module. torch's registers one of its own, which is put aside.
class TiedLinearImpl : public torch::nn::LinearImpl {
 public:
  explicit TiedLinearImpl(const torch::Tensor& tied);
};
TORCH_MODULE(TiedLinear);

/// Causal attention. One layer computes queries, keys and values: its output holds the three one after the other.
class JointAttentionImpl : public torch::nn::Module {
 public:
  explicit JointAttentionImpl(const Gpt2Sizes& sizes);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  int64_t heads_;
  weft::nn::Parallel<torch::nn::Linear> c_attn_;
  weft::nn::Parallel<torch::nn::Linear> c_proj_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(JointAttention);

class GeluLayersImpl : public torch::nn::Module {
 public:
  explicit GeluLayersImpl(const Gpt2Sizes& sizes);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  weft::nn::Parallel<torch::nn::Linear> c_fc_;
  weft::nn::Parallel<torch::nn::Linear> c_proj_;
  torch::nn::Dropout dropout_;
};
TORCH_MODULE(GeluLayers);

class Gpt2BlockImpl : public torch::nn::Module {
 public:
  explicit Gpt2BlockImpl(const Gpt2Sizes& sizes);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  weft::nn::Parallel<torch::nn::LayerNorm> ln_1_;
  JointAttention attn_;
  weft::nn::Parallel<torch::nn::LayerNorm> ln_2_;
  GeluLayers mlp_;
};
TORCH_MODULE(Gpt2Block);

/// A GPT-2-style decoder: ordinary LibTorch code, made parallel by examples/plans/gpt2.json, as the same model in Python.
/// Its output layer is tied to the embedding.
class Gpt2Impl : public torch::nn::Module, public weft::nn::Replaceable {
 public:
  explicit Gpt2Impl(const Gpt2Sizes& sizes = {});

  /// Tokens [batch, sequence] to the logits [batch, sequence, vocabulary] of the tokens that follow.
  torch::Tensor forward(const torch::Tensor& tokens);
  weft::nn::TensorMembers tensor_members() override {
    return {{"positions", &positions_}};
  }

 private:
  weft::nn::Parallel<torch::nn::Embedding> wte_;
  weft::nn::Parallel<torch::nn::Embedding> wpe_;
  torch::nn::Dropout dropout_;
  torch::nn::ModuleList h_;
  weft::nn::Parallel<torch::nn::LayerNorm> ln_f_;
  weft::nn::Parallel<TiedLinear> lm_head_;
  torch::Tensor positions_;
};
TORCH_MODULE(Gpt2);

} // namespace models
