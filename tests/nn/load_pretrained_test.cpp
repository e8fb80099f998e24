#include "weft/nn/load_pretrained.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/graph/deploy/safetensors.h"
#include "weft/nn/on_meta.h"
#include "weft/nn/replace_parameters.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>

namespace weft::nn {

namespace load_pretrained_test {

using weft::testing::error_text;
using weft::testing::expect_contains;

struct TwoLayersImpl : torch::nn::Module {
  TwoLayersImpl() {
    up = register_module("up", torch::nn::Linear(4, 6));
    down = register_module("down", torch::nn::Linear(6, 4));
  }
  torch::nn::Linear up = nullptr;
  torch::nn::Linear down = nullptr;
};
TORCH_MODULE(TwoLayers);

std::string written(const std::map<std::string, at::Tensor>& tensors) {
  const auto path = ::testing::TempDir() + "weft_load_pretrained_test.safetensors";
  graph::write_safetensors(tensors, path);
  return path;
}

std::map<std::string, at::Tensor> values() {
  return {
      {"up.weight", at::randn({6, 4})},
      {"up.bias", at::randn({6})},
      {"down.weight", at::randn({4, 6})},
      {"down.bias", at::randn({4})}};
}

TEST(LoadPretrained, FillsAShardedModuleOnMeta) {
  const auto expected = values();
  auto stored = expected;
  stored["down.w_t"] = stored.at("down.weight").t().contiguous();
  stored.erase("down.weight");
  const auto path = written(stored);
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    auto model = [] {
      const OnMeta scope;
      return TwoLayers();
    }();
    const auto shard = [&](torch::nn::Linear& layer, const Layout& layout) {
      replace_parameter(
          *layer, "weight", distribute_tensor(layer->weight.detach(), mesh, layout, {.src_data_rank = std::nullopt}));
    };
    shard(model->up, {Shard(0)});
    shard(model->down, {Shard(1)});
    const auto map = KeyMap::parse(R"({"down.weight": {"from": "down.w_t", "transpose": true}})");
    const auto keys = load_pretrained(*model, path, {.key_map = map});
    EXPECT_TRUE(keys.missing.empty());
    EXPECT_TRUE(at::equal(full_tensor(model->up->weight), expected.at("up.weight")));
    EXPECT_TRUE(at::equal(full_tensor(model->down->weight), expected.at("down.weight")));
    EXPECT_TRUE(at::equal(model->up->named_parameters()["bias"], expected.at("up.bias")));
  });
}

TEST(LoadPretrained, ListsMissingAndUnexpectedNames) {
  auto stored = values();
  stored.erase("up.bias");
  stored["extra"] = at::ones({1});
  const auto path = written(stored);
  TwoLayers module;
  const auto text = error_text<c10::ValueError>([&] { load_pretrained(*module, path); });
  expect_contains(
      text, "but the folder lacks 'up.bias', and the model lacks 'extra'. Give a key_map, or load without strict.");
  const auto keys = load_pretrained(*module, path, {.strict = false});
  EXPECT_EQ(keys.missing, std::vector<std::string>{"up.bias"});
  EXPECT_EQ(keys.unexpected, std::vector<std::string>{"extra"});
  EXPECT_TRUE(at::equal(module->up->weight, stored.at("up.weight")));
}

TEST(LoadPretrained, PlainTensorsGetTheirMemoryOnTheGivenDevice) {
  const auto expected = values();
  const auto path = written(expected);
  auto model = [] {
    const OnMeta scope;
    return TwoLayers();
  };
  auto on_cpu = model();
  load_pretrained(*on_cpu, path, {.device = c10::Device(c10::kCPU)});
  EXPECT_TRUE(at::equal(on_cpu->up->weight, expected.at("up.weight")));
  auto on_meta = model();
  expect_contains(
      error_text<c10::ValueError>([&] { load_pretrained(*on_meta, path, {.device = c10::Device(c10::kMeta)}); }),
      "must have values, but it is on meta.");
}

} // namespace load_pretrained_test

} // namespace weft::nn
