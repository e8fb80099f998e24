#pragma once

#include "bench/overlap_cases.h"

#include "weft/overlap/mesh_matmul.h"

#include <torch/autograd.h>

#include <cmath>

namespace weft::bench {

/// An all-gather of rows, whose derivative is a reduce-scatter, and the other way round.
struct GatherRows : torch::autograd::Function<GatherRows> {
  static at::Tensor forward(
      torch::autograd::AutogradContext* context,
      const at::Tensor& shard,
      const Pairs* pairs,
      int64_t rows) {
    context->saved_data["pairs"] = reinterpret_cast<int64_t>(pairs);
    return pairs->gathered(shard, rows);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& gradients) {
    const auto* pairs = reinterpret_cast<const Pairs*>(context->saved_data["pairs"].toInt());
    return {pairs->scattered(gradients[0].contiguous()), {}, {}};
  }
};

struct ScatterRows : torch::autograd::Function<ScatterRows> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& global, const Pairs* pairs) {
    context->saved_data["pairs"] = reinterpret_cast<int64_t>(pairs);
    context->saved_data["rows"] = global.size(0);
    return pairs->scattered(global);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& gradients) {
    const auto* pairs = reinterpret_cast<const Pairs*>(context->saved_data["pairs"].toInt());
    return {pairs->gathered(gradients[0].contiguous(), context->saved_data["rows"].toInt()), {}};
  }
};

/// The layers of a decoder, forward and backward, sequence parallel: a rank holds its rows of the sequence between the pairs,
/// and its heads and columns within them. Every layer gathers and scatters twice, and in backward as often.
class OverlapDecoder {
 public:
  static constexpr int64_t kDim = 256;
  static constexpr int64_t kBatch = 8; // a row is a token of one sequence; the rows of one position are adjacent
  static constexpr int64_t kHeadDim = 64;
  static constexpr int64_t kLayers = 2;

  OverlapDecoder(DeviceMesh mesh, std::shared_ptr<Pairs> pairs) : mesh_(std::move(mesh)), pairs_(std::move(pairs)) {
    const auto local = kDim / mesh_.size();
    const auto weight = [](int64_t inner, int64_t columns) {
      return at::rand({inner, columns}).sub_(0.5).mul_(2 / std::sqrt(static_cast<double>(inner))).requires_grad_();
    };
    for (int64_t i = 0; i < kLayers; ++i) {
      layers_.push_back(
          {.attention = {weight(kDim, local), weight(kDim, local), weight(kDim, local)},
           .attention_out = weight(local, kDim),
           .gate_up = {weight(kDim, 4 * local), weight(kDim, 4 * local)},
           .down = weight(4 * local, kDim)});
    }
  }

  /// Gradients of everything by the sum of the output, of which this rank has `x` rows; gives that of `x`.
  at::Tensor step(Way way, const at::Tensor& x) {
    for (auto& layer : layers_) {
      for (auto* weights : {&layer.attention, &layer.gate_up}) {
        for (auto& weight : *weights) {
          weight.mutable_grad().reset();
        }
      }
      layer.attention_out.mutable_grad().reset();
      layer.down.mutable_grad().reset();
    }
    const auto input = x.detach().requires_grad_();
    forward(way, input).sum().backward();
    return input.grad();
  }

 private:
  struct Layer {
    std::vector<at::Tensor> attention;
    at::Tensor attention_out;
    std::vector<at::Tensor> gate_up;
    at::Tensor down;
  };

  at::Tensor forward(Way way, at::Tensor x) const {
    for (const auto& layer : layers_) {
      const auto projected = gather_matmul(way, at::rms_norm(x, {kDim}), layer.attention);
      const auto heads = [](const at::Tensor& of) {
        return of.view({-1, kBatch, of.size(1) / kHeadDim, kHeadDim}).permute({1, 2, 0, 3});
      };
      const auto mixed = at::scaled_dot_product_attention(
          heads(projected[0]), heads(projected[1]), heads(projected[2]), {}, 0.0, /*is_causal=*/true);
      x = x + matmul_scatter(way, mixed.permute({2, 0, 1, 3}).reshape(projected[0].sizes()), layer.attention_out);
      const auto gate_up = gather_matmul(way, at::rms_norm(x, {kDim}), layer.gate_up);
      x = x + matmul_scatter(way, at::silu(gate_up[0]) * gate_up[1], layer.down);
    }
    return x;
  }

  std::vector<at::Tensor> gather_matmul(Way way, const at::Tensor& shard, at::TensorList others) const {
    const auto rows = shard.size(0) * mesh_.size();
    if (const auto chunks = pairs_->chunks(way, shard, rows, others)) {
      return all_gather_matmul(shard, others, mesh_, {0}, {.dim = 0, .size = rows, .chunks = *chunks}).outputs;
    }
    const auto global = GatherRows::apply(shard, pairs_.get(), rows);
    std::vector<at::Tensor> outputs;
    for (const auto& other : others) {
      outputs.push_back(at::mm(global, other));
    }
    return outputs;
  }

  at::Tensor matmul_scatter(Way way, const at::Tensor& input, const at::Tensor& other) const {
    if (const auto chunks = pairs_->chunks(way, input, other)) {
      return matmul_reduce_scatter({input}, {other}, mesh_, {0}, {.dim = 0, .op = ReduceOp::Sum, .chunks = *chunks});
    }
    return ScatterRows::apply(at::mm(input, other), pairs_.get());
  }

  DeviceMesh mesh_;
  std::shared_ptr<Pairs> pairs_;
  std::vector<Layer> layers_;
};

} // namespace weft::bench
