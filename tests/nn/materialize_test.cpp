#include "weft/nn/materialize.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/world/fake_world.h"
#include "weft/nn/on_meta.h"
#include "weft/nn/replace_parameters.h"
#include "weft/nn/reset_parameters.h"
#include "weft/tensor/distribute.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>
#include <torch/nn/modules.h>

namespace weft::nn {

namespace materialize_test {
namespace tnn = torch::nn;
using namespace weft::testing;

/// Layers in the order of their construction.
struct ModelImpl : tnn::Module {
  ModelImpl() {
    embedding = register_module("embedding", tnn::Embedding(11, 6));
    convolution = register_module("convolution", tnn::Conv2d(3, 5, 3));
    norm = register_module("norm", tnn::BatchNorm2d(5));
    attention = register_module("attention", tnn::MultiheadAttention(6, 2));
    up = register_module("up", tnn::Linear(6, 37));
    layer_norm = register_module("layer_norm", tnn::LayerNorm(tnn::LayerNormOptions({37})));
  }
  tnn::Embedding embedding{nullptr};
  tnn::Conv2d convolution{nullptr};
  tnn::BatchNorm2d norm{nullptr};
  tnn::MultiheadAttention attention{nullptr};
  tnn::Linear up{nullptr};
  tnn::LayerNorm layer_norm{nullptr};
};
TORCH_MODULE(Model);

template <class M>
M on_meta() {
  const OnMeta scope;
  return M();
}

/// Distributes every parameter and buffer, sharded along the dims that it has.
void shard(tnn::Module& module, const DeviceMesh& mesh, const Placements& placements) {
  for (const auto& each : module.modules()) {
    for (const auto& tensors : {each->named_parameters(false), each->named_buffers(false)}) {
      for (const auto& item : tensors) {
        auto own = placements;
        for (auto& placement : own) {
          placement = placement.is_shard() && placement.dim() >= item->dim() ? Replicate() : placement;
        }
        replace_parameter(*each, item.key(), distribute_tensor(item->detach(), mesh, Layout(own)));
      }
    }
  }
}

std::vector<at::Tensor> tensors_of(const tnn::Module& module) {
  auto result = module.parameters();
  for (const auto& buffer : module.buffers()) {
    result.push_back(buffer);
  }
  return result;
}

template <class M>
std::vector<at::Tensor> constructed(uint64_t seed) {
  torch::manual_seed(seed);
  return tensors_of(*M());
}

void expect_local_values(const tnn::Module& module, const std::vector<at::Tensor>& expected, const DeviceMesh& mesh) {
  const auto tensors = tensors_of(module);
  ASSERT_EQ(tensors.size(), expected.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].requires_grad(), expected[i].requires_grad());
    expect_equal(
        to_local(tensors[i].detach()), part_of(expected[i].detach(), mesh, Layout(spec_of(tensors[i])->layout())));
  }
}

TEST(Materialize, AShardedModuleHasTheValuesOfOneDevice) {
  const auto expected = constructed<Model>(3);
  for (const auto& [shape, placements] : std::vector<std::pair<std::vector<int64_t>, Placements>>{
           {{2}, {Replicate()}},
           {{2}, {Shard(0)}},
           {{3}, {Shard(1)}},
           {{2, 2}, {Shard(0), Shard(1)}},
           {{2, 2}, {Replicate(), Shard(0)}},
           {{2, 2}, {Shard(0), Shard(0)}}}) {
    on_mesh(shape, [&](const DeviceMesh& mesh) {
      auto model = on_meta<Model>();
      shard(*model, mesh, placements);
      const CommLog log(mesh);
      materialize(*model, 3);
      EXPECT_EQ(log.calls(), 0);
      expect_local_values(*model, expected, mesh);
      EXPECT_TRUE(model->up->weight.is_same(model->up->named_parameters()["weight"]));
    });
  }
}

TEST(Materialize, APlainModuleToo) {
  const auto expected = constructed<Model>(4);
  auto model = on_meta<Model>();
  materialize(*model, 4);
  const auto tensors = tensors_of(*model);
  for (size_t i = 0; i < expected.size(); ++i) {
    expect_equal(tensors[i], expected[i]);
  }
  EXPECT_TRUE(model->up->weight.is_cpu() && model->up->weight.requires_grad());
}

TEST(Materialize, AModuleThatHasItsValuesKeepsThem) {
  tnn::Sequential both;
  both->push_back(tnn::Linear(2, 3));
  both->push_back([] {
    const OnMeta scope;
    return tnn::Linear(3, 4);
  }());
  const auto before = both[0]->as<tnn::Linear>()->weight.detach().clone();
  materialize(*both, 1);
  expect_equal(both[0]->as<tnn::Linear>()->weight, before);
  torch::manual_seed(1);
  expect_equal(both[1]->as<tnn::Linear>()->weight, tnn::Linear(3, 4)->weight);
}

TEST(Materialize, AGeneratorMovesOnFromModuleToModule) {
  torch::manual_seed(9);
  const tnn::Linear one(5, 7);
  const tnn::Linear two(5, 7);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(9);
    for (const auto& expected : {one, two}) {
      auto linear = [] {
        const OnMeta scope;
        return tnn::Linear(5, 7);
      }();
      shard(*linear, mesh, {Shard(0)});
      materialize(*linear, generator);
      expect_local_values(*linear, expected->parameters(), mesh);
    }
  });
}

struct TiedImpl : tnn::Module, Replaceable, Resettable {
  TiedImpl() {
    embedding = register_module("embedding", tnn::Embedding(8, 4));
    weight = register_parameter("weight", embedding->weight);
  }
  TensorMembers tensor_members() override {
    return {{"weight", &weight}};
  }
  void reset_parameters() override {}
  tnn::Embedding embedding{nullptr};
  at::Tensor weight;
};
TORCH_MODULE(Tied);

TEST(Materialize, TiedParametersStayTied) {
  auto plain = on_meta<Tied>();
  materialize(*plain, 1);
  EXPECT_TRUE(plain->weight.is_same(plain->embedding->weight));
  EXPECT_TRUE(plain->weight.is_cpu());
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto tied = on_meta<Tied>();
    const auto weight = distribute_tensor(tied->weight.detach(), mesh, {Shard(0)});
    replace_parameter(*tied, "weight", weight);
    replace_parameter(*tied->embedding, "weight", weight);
    materialize(*tied, 1);
    EXPECT_TRUE(tied->weight.is_same(tied->embedding->weight));
    EXPECT_TRUE(tied->weight.is_same(weight));
    EXPECT_TRUE(weight.device().is_cpu());
  });
}

struct ForgottenImpl : tnn::Module, Replaceable {
  ForgottenImpl() {
    weight = register_parameter("weight", torch::ones({4}));
    table = register_buffer("table", torch::arange(3));
    linear = register_module("linear", tnn::Linear(2, 2));
  }
  TensorMembers tensor_members() override {
    return {{"weight", &weight}, {"table", &table}};
  }
  at::Tensor weight;
  at::Tensor table;
  tnn::Linear linear{nullptr};
};
TORCH_MODULE(Forgotten);

TEST(Materialize, UninitialisedTensorsAreAnErrorUnlessInitFnHandlesThem) {
  struct Outer : tnn::Module {
    Forgotten inner = register_module("inner", on_meta<Forgotten>());
  };
  const auto outer = std::make_shared<Outer>();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { materialize(*outer, 1); }),
      "[materialize] every tensor must be given its values, but nothing was written to "
      "inner.weight of weft::nn::materialize_test::ForgottenImpl, inner.table of "
      "weft::nn::materialize_test::ForgottenImpl. Derive the module from weft::nn::Resettable, or give an init_fn "
      "that does it.");
  auto forgotten = on_meta<Forgotten>();
  const auto init = [](tnn::Module& module) {
    auto* own = module.as<ForgottenImpl>();
    if (own != nullptr) {
      own->weight.fill_(1);
      own->table.copy_(at::arange(3));
    }
    return own != nullptr;
  };
  materialize(*forgotten, 1, {.init_fn = init});
  expect_equal(forgotten->weight, at::ones({4}));
  expect_equal(forgotten->table, at::arange(3));
  torch::manual_seed(1);
  expect_equal(forgotten->linear->weight, tnn::Linear(2, 2)->weight);
}

TEST(Materialize, PeakMemoryIsTheShardAndAChunk) {
  constexpr size_t kGlobal = size_t{4096} * 2048 * sizeof(float);
  constexpr size_t kChunk = size_t{1} << 19;
  for (const auto& placement : {Shard(0), Shard(1)}) {
    // One rank of four in a fake world, so that no other rank allocates.
    const DeviceMesh mesh(make_fake_world(4, 2), c10::kCPU, {4});
    auto linear = [] {
      const OnMeta scope;
      return tnn::Linear(2048, 4096);
    }();
    replace_parameter(*linear, "weight", distribute_tensor(linear->weight.detach(), mesh, {placement}));
    replace_parameter(*linear, "bias", distribute_tensor(linear->bias.detach(), mesh, {Replicate()}));
    // Static, because the allocator must outlive the memory that it has allocated.
    static CountingAllocator shard_0;
    static CountingAllocator shard_1;
    auto* const allocator = placement.dim() == 0 ? &shard_0 : &shard_1;
    {
      const CountAllocations scope(*allocator);
      materialize(*linear, 1);
    }
    EXPECT_GE(allocator->peak(), kGlobal / 4);
    EXPECT_LE(allocator->peak(), kGlobal / 4 + kChunk) << "more than the shard and a chunk";
  }
}

} // namespace materialize_test

} // namespace weft::nn
