#pragma once

#include "weft/nn/parallel.h"
#include "weft/nn/replace_parameters.h"

#include <ATen/ops/_fused_adamw.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace weft::bench {

/// The decoder of bench/python_decoder.py in C++, module by module under the same names: one plan file serves both.

using Linear = nn::Parallel<torch::nn::Linear>;

inline Linear linear(int64_t inputs, int64_t outputs) {
  return Linear(torch::nn::LinearOptions(inputs, outputs).bias(false));
}

struct RmsNormImpl : torch::nn::Module, nn::Replaceable {
  explicit RmsNormImpl(int64_t dim) : weight(register_parameter("weight", torch::ones({dim}))) {}

  at::Tensor forward(const at::Tensor& x) {
    return torch::rms_norm(x, weight.sizes(), weight, 1e-5);
  }
  nn::TensorMembers tensor_members() override {
    return {{"weight", &weight}};
  }

  at::Tensor weight;
};
TORCH_MODULE(RmsNorm);

struct AttentionImpl : torch::nn::Module {
  AttentionImpl(int64_t dim, int64_t heads)
      : head_dim(dim / heads),
        query(register_module("query", linear(dim, dim))),
        key(register_module("key", linear(dim, dim))),
        value(register_module("value", linear(dim, dim))),
        output(register_module("output", linear(dim, dim))) {}

  at::Tensor forward(const at::Tensor& x) {
    const auto heads = [&](Linear& of) { return of(x).unflatten(-1, {-1, head_dim}).transpose(1, 2); };
    const auto mixed = torch::scaled_dot_product_attention(heads(query), heads(key), heads(value), {}, 0.0, true);
    return output(mixed.transpose(1, 2).flatten(-2));
  }

  int64_t head_dim;
  Linear query, key, value, output;
};
TORCH_MODULE(Attention);

struct FeedForwardImpl : torch::nn::Module {
  explicit FeedForwardImpl(int64_t dim)
      : gate(register_module("gate", linear(dim, 4 * dim))),
        up(register_module("up", linear(dim, 4 * dim))),
        down(register_module("down", linear(4 * dim, dim))) {}

  at::Tensor forward(const at::Tensor& x) {
    return down(torch::silu(gate(x)) * up(x));
  }

  Linear gate, up, down;
};
TORCH_MODULE(FeedForward);

struct BlockImpl : torch::nn::Module {
  BlockImpl(int64_t dim, int64_t heads)
      : attention_norm(register_module("attention_norm", nn::Parallel<RmsNorm>(dim))),
        attention(register_module("attention", Attention(dim, heads))),
        feed_forward_norm(register_module("feed_forward_norm", nn::Parallel<RmsNorm>(dim))),
        feed_forward(register_module("feed_forward", FeedForward(dim))) {}

  at::Tensor forward(const at::Tensor& x) {
    const auto mixed = x + attention(attention_norm(x));
    return mixed + feed_forward(feed_forward_norm(mixed));
  }

  nn::Parallel<RmsNorm> attention_norm;
  Attention attention;
  nn::Parallel<RmsNorm> feed_forward_norm;
  FeedForward feed_forward;
};
TORCH_MODULE(Block);

struct DecoderImpl : torch::nn::Module {
  DecoderImpl(int64_t vocabulary, int64_t dim, int64_t count, int64_t heads)
      : tokens(register_module("tokens", nn::Parallel<torch::nn::Embedding>(vocabulary, dim))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        norm(register_module("norm", nn::Parallel<RmsNorm>(dim))),
        logits(register_module("logits", linear(dim, vocabulary))) {
    for (int64_t i = 0; i < count; ++i) {
      blocks->push_back(nn::Parallel<Block>(dim, heads));
    }
  }

  at::Tensor forward(const at::Tensor& inputs) {
    auto x = tokens(inputs);
    for (const auto& block : *blocks) {
      x = block->as<nn::ParallelImpl<BlockImpl>>()->forward(x);
    }
    return logits(norm(x));
  }

  nn::Parallel<torch::nn::Embedding> tokens;
  torch::nn::ModuleList blocks;
  nn::Parallel<RmsNorm> norm;
  Linear logits;
};
TORCH_MODULE(Decoder);

/// Takes steps with AdamW, all parameters in one call.
class Training {
 public:
  explicit Training(nn::Parallel<Decoder> model) : model_(std::move(model)), parameters_(model_->parameters()) {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : parameters_) {
      first_.push_back(torch::zeros_like(parameter));
      second_.push_back(torch::zeros_like(parameter));
      steps_.push_back(torch::zeros({}));
    }
  }

  /// The loss before the parameters were changed.
  double step(const at::Tensor& inputs, const at::Tensor& targets) {
    return take_step(inputs, targets).item<float>();
  }
  /// The same as a tensor, without reading its value.
  at::Tensor take_step(const at::Tensor& inputs, const at::Tensor& targets) {
    namespace F = torch::nn::functional;
    const auto loss = F::cross_entropy(model_(inputs).flatten(0, 1), targets.flatten());
    loss.backward();
    update();
    return loss;
  }

  /// The parameters and the states of the optimizer.
  std::vector<at::Tensor> tensors() const {
    auto all = parameters_;
    for (const auto* states : {&first_, &second_, &steps_}) {
      all.insert(all.end(), states->begin(), states->end());
    }
    return all;
  }

 private:
  void update() {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (auto& parameter : parameters_) {
      gradients.push_back(parameter.grad());
      parameter.mutable_grad().reset();
    }
    torch::_foreach_add_(steps_, 1);
    at::_fused_adamw_(
        parameters_, gradients, first_, second_, {}, steps_, /*lr=*/1e-3, /*beta1=*/0.9, /*beta2=*/0.999,
        /*weight_decay=*/1e-2, /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
  }

  nn::Parallel<Decoder> model_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> first_, second_, steps_;
};

} // namespace weft::bench
