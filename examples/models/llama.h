#pragma once

#include "examples/models/rms_norm.h"
#include "weft/nn/parallel.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace models {

struct LlamaSizes {
  int64_t vocabulary = 64;
  int64_t length = 16; // of the longest sequence
  int64_t dim = 32;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t kv_heads = 2; // of keys and values, each used by heads / kv_heads heads of queries
  int64_t hidden = 96;
};

/// Cosines and sines [length, 1, head_dim] of the angles by which the pairs (i, i + head_dim / 2) are turned.
struct Rotations {
  torch::Tensor cosines;
  torch::Tensor sines;

  static Rotations of(int64_t length, int64_t head_dim, double base = 10000.0);
  /// x [batch, sequence, heads, head_dim], each position turned by its angles.
  torch::Tensor turn(const torch::Tensor& x) const;
};

/// Causal attention, in which several heads of queries share one of keys and values.
class GroupedAttentionImpl : public torch::nn::Module {
 public:
  explicit GroupedAttentionImpl(const LlamaSizes& sizes);
  torch::Tensor forward(const torch::Tensor& x, const Rotations& rotations);

 private:
  int64_t heads_;
  int64_t kv_heads_;
  int64_t head_dim_;
  weft::nn::Parallel<torch::nn::Linear> wq_;
  weft::nn::Parallel<torch::nn::Linear> wk_;
  weft::nn::Parallel<torch::nn::Linear> wv_;
  weft::nn::Parallel<torch::nn::Linear> wo_;
};
TORCH_MODULE(GroupedAttention);

class SwiGluImpl : public torch::nn::Module {
 public:
  explicit SwiGluImpl(const LlamaSizes& sizes);
  torch::Tensor forward(const torch::Tensor& x);

 private:
  weft::nn::Parallel<torch::nn::Linear> w1_;
  weft::nn::Parallel<torch::nn::Linear> w2_;
  weft::nn::Parallel<torch::nn::Linear> w3_;
};
TORCH_MODULE(SwiGlu);

class LlamaBlockImpl : public torch::nn::Module {
 public:
  explicit LlamaBlockImpl(const LlamaSizes& sizes);
  torch::Tensor forward(const torch::Tensor& x, const Rotations& rotations);

 private:
  weft::nn::Parallel<RmsNorm> attention_norm_;
  GroupedAttention attention_;
  weft::nn::Parallel<RmsNorm> ffn_norm_;
  SwiGlu feed_forward_;
};
TORCH_MODULE(LlamaBlock);

/// A Llama-style decoder: ordinary LibTorch code, whose modules may be parallel. examples/plans/llama.json makes them so,
/// of this model and of the same one in Python, since their names are the same.
///
///   Llama model(LlamaSizes{});
///   weft::nn::parallelize_module(*model, mesh, weft::nn::ParallelPlan::load("llama.json"));
class LlamaImpl : public torch::nn::Module, public weft::nn::Replaceable {
 public:
  explicit LlamaImpl(const LlamaSizes& sizes = {});

  /// Tokens [batch, sequence] to the logits [batch, sequence, vocabulary] of the tokens that follow.
  torch::Tensor forward(const torch::Tensor& tokens);
  weft::nn::TensorMembers tensor_members() override {
    return {{"cosines", &rotations_.cosines}, {"sines", &rotations_.sines}};
  }

 private:
  weft::nn::Parallel<torch::nn::Embedding> tok_embeddings_;
  torch::nn::ModuleList layers_;
  weft::nn::Parallel<RmsNorm> norm_;
  weft::nn::Parallel<torch::nn::Linear> output_;
  Rotations rotations_;
};
TORCH_MODULE(Llama);

} // namespace models
