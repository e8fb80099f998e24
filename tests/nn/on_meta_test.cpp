#include "weft/nn/on_meta.h"
#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules.h>
#include <torch/nn/modules/transformer.h>
#include <torch/nn/modules/transformercoder.h>

namespace weft::nn {

namespace on_meta_test {
namespace tnn = torch::nn;

TEST(OnMeta, ModulesAreMadeWithoutMemory) {
  const OnMeta scope;
  tnn::Sequential modules(
      tnn::Linear(4, 3), tnn::Embedding(tnn::EmbeddingOptions(7, 3).padding_idx(2)),
      tnn::LayerNorm(tnn::LayerNormOptions({4})), tnn::Conv2d(4, 2, 3), tnn::BatchNorm2d(4), tnn::LSTM(3, 4),
      tnn::PReLU(), tnn::MultiheadAttention(4, 2), tnn::Bilinear(4, 3, 2),
      tnn::Transformer(tnn::TransformerOptions(4, 2, 2, 2).dim_feedforward(8)));
  for (const auto& tensors : {modules->parameters(), modules->buffers()}) {
    for (const auto& tensor : tensors) {
      EXPECT_TRUE(tensor.is_meta());
    }
  }
  EXPECT_GT(modules->parameters().size(), 50);
}

TEST(OnMeta, AModuleThatNoMachineCouldHold) {
  const OnMeta scope;
  tnn::Linear linear(int64_t{1} << 24, int64_t{1} << 24);
  EXPECT_EQ(linear->weight.numel(), int64_t{1} << 48);
}

TEST(OnMeta, EndsWithItsObject) {
  {
    const OnMeta scope;
    EXPECT_TRUE(at::zeros({2}).is_meta());
    EXPECT_TRUE(at::arange(3).is_meta());
    EXPECT_TRUE(at::randn({2}).is_meta());
    EXPECT_TRUE(at::ones({2}, at::kDouble).is_meta());
  }
  EXPECT_TRUE(at::zeros({2}).is_cpu());
}

TEST(OnMeta, ADeviceThatIsNamedCounts) {
  const OnMeta scope;
  EXPECT_TRUE(at::zeros({2}, at::kCPU).is_cpu());
  EXPECT_TRUE(at::tensor({1.0F, 2.0F}, at::kCPU).is_cpu());
  EXPECT_TRUE(at::zeros_like(at::zeros({2}, at::kCPU)).is_cpu());
}

TEST(OnMeta, WritingToMemoryDirectlyIsAnError) {
  const OnMeta scope;
  testing::expect_contains(testing::error_text([] { at::tensor({1.0F, 2.0F}); }), "its data is not allocated yet");
}

} // namespace on_meta_test

} // namespace weft::nn
