#include "weft/nn/parallelize_module.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/nn/parallel.h"
#include "weft/tensor/distribute.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/utils.h>

namespace weft::nn {

namespace parallelize_module_test {
using namespace weft::testing;

/// A norm, then linear layers of which the first two use the same input.
struct BlockImpl : torch::nn::Module {
  BlockImpl()
      : norm(register_module("norm", Parallel<torch::nn::LayerNorm>(std::vector<int64_t>{8}))),
        gate(register_module("gate", Parallel<torch::nn::Linear>(8, 16))),
        up(register_module("up", Parallel<torch::nn::Linear>(8, 16))),
        down(register_module("down", Parallel<torch::nn::Linear>(16, 8))) {}

  at::Tensor forward(const at::Tensor& x) {
    const auto normed = norm(x);
    return x + down(at::silu(gate(normed)) * up(normed));
  }

  Parallel<torch::nn::LayerNorm> norm;
  Parallel<torch::nn::Linear> gate, up, down;
};
TORCH_MODULE(Block);

/// The same without Parallel.
struct PlainBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return x + down(at::silu(gate(x)));
  }
  torch::nn::Linear gate = register_module("gate", torch::nn::Linear(8, 16));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(16, 8));
};
TORCH_MODULE(PlainBlock);

const ParallelPlan kPlan = {{"gate", colwise()}, {"up", colwise()}, {"down", rowwise()}};
const ParallelPlan kSequencePlan = {
    {"norm", sequence()},
    {"gate", colwise()},
    {"up", colwise()},
    {"down", rowwise({.output = Shard(1)})}};

template <class Model>
Model seeded() {
  static std::mutex one_at_a_time; // ranks that are threads share the generator
  const std::lock_guard lock(one_at_a_time);
  torch::manual_seed(3);
  return Model();
}

const at::Tensor& input() {
  static const at::Tensor x = at::arange(4 * 6 * 8, at::kFloat).view({4, 6, 8}).sin();
  return x;
}

/// Checks that forward and backward are those of the plain model.
template <class Model>
void expect_same(Model& model, const at::Tensor& x) {
  auto plain = seeded<Model>();
  const auto expected = plain(input());
  expected.square().sum().backward();
  const auto result = model(x);
  result.square().sum().backward();
  EXPECT_TRUE(at::allclose(full_tensor(result), expected, 1e-5, 1e-6));
  for (const auto& item : plain->named_parameters()) {
    const auto parameter = model->named_parameters()[item.key()];
    EXPECT_EQ(spec_of(parameter.grad())->layout(), spec_of(parameter)->layout()) << item.key();
    EXPECT_TRUE(at::allclose(full_tensor(parameter.grad()), item.value().grad(), 1e-4, 1e-5)) << item.key();
  }
}

TEST(ParallelizeModule, GivesTheSameForwardAndBackward) {
  for (const auto& plan : {kPlan, kSequencePlan}) {
    run_on_ranks(4, [&](int64_t) {
      const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
      auto model = seeded<Block>();
      parallelize_module(*model, mesh, plan);
      EXPECT_EQ(spec_of(model->gate->weight)->layout(), (Layout{Replicate(), Shard(0)}));
      EXPECT_EQ(spec_of(model->down->weight)->layout(), (Layout{Replicate(), Shard(1)}));
      EXPECT_EQ(spec_of(model->norm->weight)->layout(), (Layout{Replicate(), Replicate()}));
      expect_same(model, distribute_tensor(input(), mesh, {Shard(0), Replicate()}));
    });
  }
}

TEST(ParallelizeModule, CommunicatesAsOftenAsOneWouldByHand) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded<Block>();
    parallelize_module(*model, mesh, kPlan);
    const auto x = distribute_tensor(input(), mesh, {Replicate()});
    CommLog log(mesh);
    const auto result = model(x).sum();
    EXPECT_EQ(log.calls(), 1) << log.to_string(); // after down
    result.backward();
    EXPECT_EQ(log.calls(), 2) << log.to_string(); // before gate and up
    EXPECT_EQ(log.bytes(), 2 * input().nbytes());
  });
}

TEST(ParallelizeModule, WithoutParallelLayoutsFollowFromTheWeights) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded<PlainBlock>();
    parallelize_module(*model, mesh, {{"gate", colwise({.heads = 4})}, {"down", rowwise()}});
    expect_same(model, distribute_tensor(input(), mesh, {Replicate()}));
  });
}

TEST(ParallelizeModule, MovingInputsOrOutputsNeedsParallel) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded<PlainBlock>();
    EXPECT_EQ(
        error_text<c10::ValueError>(
            [&] { parallelize_module(*model, mesh, {{"down", rowwise({.output = Shard(1)})}}); }),
        "[parallelize_module] plan entry \"down\" for module \"down\": a module whose inputs or outputs are "
        "redistributed must "
        "be "
        "declared Parallel, but torch::nn::LinearImpl is not. Write weft::nn::Parallel<...> where it is a member.");
    for (const auto& parameter : model->parameters()) {
      EXPECT_FALSE(is_dtensor(parameter)) << "an error must leave the model as it was";
    }
    Style by_keyword = prepare_input({});
    by_keyword.keyword_inputs = {{"x", {.to = Replicate()}}};
    expect_contains(
        error_text<c10::ValueError>([&] { parallelize_module(*seeded<Block>(), mesh, {{"gate", by_keyword}}); }),
        "C++ modules have no keyword arguments");
  });
}

TEST(ParallelizeModule, APlanMayGiveOutPlainTensors) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded<Block>();
    parallelize_module(
        *model, mesh,
        {{"gate", colwise({.local_output = true})},
         {"up", colwise({.local_output = true})},
         {"down", rowwise({.local_output = true})}});
    EXPECT_FALSE(is_dtensor(model->norm->weight));
    auto plain = seeded<Block>();
    EXPECT_TRUE(at::allclose(model(input()), plain(input()), 1e-5, 1e-6));
  });
}

/// Adds a plain tensor to the outputs of a linear layer.
struct ShiftedImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return linear(x) + at::arange(8, at::kFloat);
  }
  Parallel<torch::nn::Linear> linear = register_module("linear", Parallel<torch::nn::Linear>(8, 8));
};
TORCH_MODULE(Shifted);

TEST(ParallelizeModule, PlainTensorsCountAsReplicatedInForward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded<Parallel<Shifted>>();
    parallelize_module(*model, mesh, {{"linear", colwise()}});
    const auto x = distribute_tensor(input(), mesh, {Replicate()});
    expect_same(model, x);
    expect_contains(error_text<c10::ValueError>([&] { x.add(input()); }), "cannot be mixed");
  });
}

TEST(ParallelizeModule, PlainTensorsAreAnErrorIfAnOptionSaysSoOrThePlanReturnsPlainShards) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(input(), mesh, {Replicate()});
    auto off = seeded<Parallel<Shifted>>();
    parallelize_module(*off, mesh, {{"linear", colwise()}}, {.replicate_plain = false});
    expect_contains(error_text<c10::ValueError>([&] { off(x); }), "cannot be mixed");

    auto shards = seeded<Parallel<Shifted>>();
    parallelize_module(*shards, mesh, {{"linear", colwise({.local_output = true})}});
    shards->linear->add_output_fn([](std::vector<at::Tensor> values) {
      EXPECT_FALSE(ParallelForward::is_active());
      return values;
    });
    shards->linear(x);
  });
}

/// A block and a layer around it.
struct StackImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return block(first(x));
  }
  Parallel<torch::nn::Linear> first = register_module("first", Parallel<torch::nn::Linear>(8, 8));
  Block block = register_module("block", Block());
};
TORCH_MODULE(Stack);

TEST(ParallelizeModule, ASubmoduleMayComeBeforeTheModuleAroundIt) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded<Stack>();
    parallelize_module(*model->block, mesh, kPlan);
    const auto gate = model->block->gate->weight;
    parallelize_module(*model, mesh, {{"first", rowwise()}});
    EXPECT_TRUE(model->block->gate->weight.is_same(gate));
    EXPECT_EQ(spec_of(model->block->down->weight)->layout(), Layout{Shard(1)});
    EXPECT_EQ(spec_of(model->first->weight)->layout(), Layout{Shard(1)});
    expect_same(model, distribute_tensor(input(), mesh, {Replicate()}));
    expect_contains(
        error_text<c10::ValueError>([&] { parallelize_module(*model, mesh, {{"block.gate", rowwise()}}); }),
        "a plain tensor is required, or one that is distributed as asked");
  });
}

TEST(ParallelizeModule, PlainShardsOfAnEarlierPlanForbidThatPlainTensorsCountAsReplicated) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded<Parallel<Stack>>();
    parallelize_module(
        *model->block, mesh,
        {{"gate", colwise({.local_output = true})},
         {"up", colwise({.local_output = true})},
         {"down", rowwise({.local_output = true})}});
    parallelize_module(*model, mesh, {{"first", colwise()}});
    model->first->add_output_fn([](std::vector<at::Tensor> values) {
      EXPECT_FALSE(ParallelForward::is_active());
      return values;
    });
    const auto first = model->first(distribute_tensor(input(), mesh, {Replicate()}));
    expect_contains(error_text<c10::ValueError>([&] { model->block(first); }), "cannot be mixed");
  });
}

} // namespace parallelize_module_test

} // namespace weft::nn
