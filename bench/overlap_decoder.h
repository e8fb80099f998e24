#pragma once

#include "bench/overlap_cases.h"

#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>

namespace weft::bench {

/// The layers of a decoder, forward, sequence parallel: a rank holds its rows of the sequence between the pairs, and its heads
/// and columns within them. Every layer gathers and scatters twice.
class OverlapDecoder {
 public:
  static constexpr int64_t kDim = 512;
  static constexpr int64_t kHeadDim = 64;
  static constexpr int64_t kLayers = 2;

  explicit OverlapDecoder(int64_t members) {
    const auto local = kDim / members;
    const auto weight = [](int64_t inner, int64_t columns) {
      return at::rand({inner, columns}).sub_(0.5).mul_(2 / std::sqrt(static_cast<double>(inner)));
    };
    for (int64_t i = 0; i < kLayers; ++i) {
      layers_.push_back(
          {.attention = {weight(kDim, local), weight(kDim, local), weight(kDim, local)},
           .attention_out = weight(local, kDim),
           .gate_up = {weight(kDim, 4 * local), weight(kDim, 4 * local)},
           .down = weight(4 * local, kDim)});
    }
  }

  /// `x` and what is given are this rank's rows.
  at::Tensor forward(const Pairs& pairs, Way way, at::Tensor x) const {
    const auto rows = x.size(0) * pairs.group().size();
    for (const auto& layer : layers_) {
      const auto projected = pairs.gather_matmul(way, at::rms_norm(x, {kDim}), rows, layer.attention);
      const auto heads = [&](const at::Tensor& of) { return of.unflatten(-1, {-1, kHeadDim}).transpose(0, 1).unsqueeze(0); };
      const auto mixed = at::scaled_dot_product_attention(
          heads(projected[0]), heads(projected[1]), heads(projected[2]), {}, 0.0, /*is_causal=*/true);
      x = x + pairs.matmul_scatter(way, mixed.squeeze(0).transpose(0, 1).flatten(1), layer.attention_out);
      const auto gate_up = pairs.gather_matmul(way, at::rms_norm(x, {kDim}), rows, layer.gate_up);
      x = x + pairs.matmul_scatter(way, at::silu(gate_up[0]).mul_(gate_up[1]), layer.down);
    }
    return x;
  }

 private:
  struct Layer {
    std::vector<at::Tensor> attention;
    at::Tensor attention_out;
    std::vector<at::Tensor> gate_up;
    at::Tensor down;
  };

  std::vector<Layer> layers_;
};

} // namespace weft::bench
