#include "weft/nn/fully_shard.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/nn/clip_grad_norm.h"
#include "weft/nn/parallel.h"
#include "weft/nn/parallelize_module.h"
#include "weft/nn/replace_parameters.h"
#include "weft/tensor/distribute.h"

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>
#include <torch/utils.h>

namespace weft::nn {

namespace fully_shard_test {
using namespace weft::testing;

/// Prime sizes. The layers inside need not be declared Parallel.
struct BlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return x + down(at::gelu(up(norm(x))));
  }
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(std::vector<int64_t>{12}));
  Parallel<torch::nn::Linear> up = register_module("up", Parallel<torch::nn::Linear>(12, 34));
  Parallel<torch::nn::Linear> down = register_module("down", Parallel<torch::nn::Linear>(34, 12));
};
TORCH_MODULE(Block);

/// The output is tied to the embedding.
struct ModelImpl : torch::nn::Module {
  ModelImpl() {
    for (int i = 0; i < 2; ++i) {
      blocks->push_back(Parallel<Block>());
    }
    replace_parameter(*output, "weight", embedding->weight);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    auto x = embedding(tokens);
    for (const auto i : is_used_twice ? std::vector<int>{0, 1, 0} : std::vector<int>{0, 1}) {
      x = (*blocks)[i]->as<ParallelImpl<BlockImpl>>()->forward(x);
    }
    return output(x);
  }
  bool is_used_twice = true; // the first block
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(7, 12));
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
  torch::nn::Linear output = register_module("output", torch::nn::Linear(torch::nn::LinearOptions(12, 7).bias(false)));
};
TORCH_MODULE(Model);

Parallel<Model> seeded() {
  static std::mutex one_at_a_time; // ranks that are threads share the generator
  const std::lock_guard lock(one_at_a_time);
  torch::manual_seed(3);
  return {};
}

void shard(torch::nn::Module& model, const DeviceMesh& mesh, const FullyShardOptions& options = {}) {
  for (const auto& block : *model.as<ModelImpl>()->blocks) {
    fully_shard(*block, mesh, options);
  }
  fully_shard(model, mesh, options);
}

const at::Tensor& tokens() {
  static const at::Tensor tokens = at::arange(8).remainder(7);
  return tokens;
}

constexpr int kSteps = 20;

/// The losses; `rows` are this rank's, or the distributed ones.
std::vector<double> train(ParallelImpl<ModelImpl>& model, const at::Tensor& rows) {
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : model.parameters()) {
    const auto is_known = [&](const at::Tensor& other) { return other.is_same(parameter); };
    if (std::none_of(parameters.begin(), parameters.end(), is_known)) {
      parameters.push_back(parameter);
    }
  }
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(0.01));
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const auto loss = at::cross_entropy_loss(model.forward(rows), rows);
    loss.backward();
    clip_grad_norm_(parameters, 1.0);
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back((is_dtensor(loss) ? full_tensor(loss) : loss).item<double>());
  }
  return losses;
}

const std::vector<double>& expected_losses() {
  static const auto losses = train(*seeded(), tokens());
  return losses;
}

/// `losses` of a rank are those of one device, or their average over the mesh is.
void expect_losses(const std::vector<double>& losses, const DeviceMesh& averaged_over = {}) {
  auto given = at::tensor(losses);
  if (averaged_over.defined()) {
    given = full_tensor(from_local(given.unsqueeze(0), averaged_over, Layout{Shard(0)})).mean(0);
  }
  EXPECT_TRUE(at::allclose(given, at::tensor(expected_losses()), 1e-5, 1e-5));
}

TEST(FullyShard, TrainsAsOneDeviceInTheGlobalView) {
  expected_losses();
  for (const int64_t ranks : {1, 2, 4}) {
    on_mesh({ranks}, [](const DeviceMesh& mesh) {
      auto model = seeded();
      shard(*model, mesh);
      EXPECT_TRUE(spec_of(model->embedding->weight)->layout()[0].is_ragged());
      EXPECT_TRUE(model->embedding->weight.is_same(model->output->weight));
      expect_losses(train(*model, distribute_tensor(tokens(), mesh, {Shard(0)})));
    });
  }
}

TEST(FullyShard, TrainsAsOneDeviceOnDataThatDifferByRank) {
  expected_losses();
  for (const bool reshards : {true, false}) {
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      auto model = seeded();
      shard(*model, mesh, {.reshard_after_forward = reshards});
      expect_losses(train(*model, tokens().chunk(2)[mesh.rank(0)]), mesh);
    });
  }
}

TEST(FullyShard, HasReplicasAndTensorParallelLayersInside) {
  expected_losses();
  run_on_ranks(4, [](int64_t) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"replicate", "shard"});
    auto model = seeded();
    shard(*model, mesh);
    expect_losses(train(*model, distribute_tensor(tokens(), mesh, {Shard(0), Shard(0)})));
  });
  run_on_ranks(4, [](int64_t) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    auto model = seeded();
    parallelize_module(*model, mesh, {{"blocks.*.up", colwise()}, {"blocks.*.down", rowwise()}});
    shard(*model, mesh, {.mesh_dim = "dp"});
    EXPECT_EQ(spec_of((*model->blocks)[0]->named_parameters()["up.weight"])->layout()[1], Shard(0));
    expect_losses(train(*model, distribute_tensor(tokens(), mesh, {Shard(0), Replicate()})));
  });
}

TEST(FullyShard, APlanSaysItTogetherWithStyles) {
  expected_losses();
  const auto plan = ParallelPlan::parse(R"({
    "blocks.*": {"shard": "dp"}, "blocks.*.up": "colwise", "blocks.*.down": "rowwise", "": {"shard": "dp"}})");
  run_on_ranks(4, [&](int64_t) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    auto model = seeded();
    parallelize_module(*model, mesh, plan);
    EXPECT_EQ(units_of(*model).size(), 3);
    const auto& up = spec_of((*model->blocks)[0]->named_parameters()["up.weight"])->layout();
    EXPECT_TRUE(up[0].is_ragged());
    EXPECT_EQ(up[1], Shard(0));
    expect_losses(train(*model, distribute_tensor(tokens(), mesh, {Shard(0), Replicate()})));
  });
  on_mesh({2}, [](const DeviceMesh& mesh) { // without styles no dim is needed for them
    auto model = seeded();
    parallelize_module(*model, mesh, ParallelPlan::parse(c10::str("{\"\": {\"shard\": \"", mesh.name(0), "\"}}")));
    expect_losses(train(*model, tokens().chunk(2)[mesh.rank(0)]), mesh);
    EXPECT_EQ(units_of(*model).size(), 1);
  });
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded();
    const auto text = c10::str("{\"blocks.*.norm\": {\"shard\": \"", mesh.name(0), "\"}}");
    expect_contains(
        error_text<c10::ValueError>([&] { parallelize_module(*model, mesh, ParallelPlan::parse(text)); }),
        "plan entry \"blocks.*.norm\" for module \"blocks.0.norm\": a module that is fully sharded must be declared "
        "Parallel");
  });
}

TEST(FullyShard, ReshardsToNeighbours) {
  expected_losses();
  on_mesh({4}, [](const DeviceMesh& mesh) {
    auto model = seeded();
    shard(*model, mesh, {.reshard_to = 2});
    expect_losses(train(*model, tokens().chunk(4)[mesh.rank(0)]), mesh);
    auto counted = seeded();
    counted->is_used_twice = false;
    shard(*counted, mesh, {.reshard_to = 2});
    const auto forward = [&] { return at::cross_entropy_loss(counted->forward(tokens()), tokens()); };
    forward().backward();
    const auto loss = forward();
    const CommLog log(mesh);
    loss.backward();
    std::map<std::string, int64_t> gathers;
    for (const auto& row : log.rows()) {
      gathers[row.mesh_dims] += row.collective == Collective::AllGather ? row.calls : 0;
    }
    EXPECT_EQ(gathers["inner"], 3) << log.to_string();
    EXPECT_EQ(gathers["a"], 0) << log.to_string();
    expect_contains(
        error_text<c10::ValueError>([&] { units_of(*model)[0]->set_reshard_to(3); }),
        "that divides the size of mesh dim");
  });
}

TEST(FullyShard, AStepGathersEachUnitTwiceAndReducesItOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded();
    model->is_used_twice = false;
    shard(*model, mesh);
    EXPECT_EQ(units_of(*model).size(), 3);
    const auto rows = tokens().chunk(2)[mesh.rank(0)];
    const auto step = [&] { at::cross_entropy_loss(model->forward(rows), rows).backward(); };
    step();
    const CommLog log(mesh);
    step();
    std::map<Collective, int64_t> calls;
    for (const auto& row : log.rows()) {
      calls[row.collective] += row.calls;
    }
    EXPECT_EQ(calls[Collective::AllGather], 1 + 2 * 2) << log.to_string(); // the outermost unit stays gathered
    EXPECT_EQ(calls[Collective::ReduceScatter], 3) << log.to_string();
  });
}

TEST(FullyShard, AForwardThatThrowsLeavesTheShards) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded();
    shard(*model, mesh);
    EXPECT_ANY_THROW(model->forward(at::full({2}, 99)));
    for (const auto& parameter : model->parameters()) {
      EXPECT_TRUE(is_dtensor(parameter));
    }
    at::cross_entropy_loss(model->forward(tokens()), tokens()).backward();
  });
}

TEST(FullyShard, BackwardNeedsNoModule) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    at::Tensor loss;
    std::vector<at::Tensor> parameters;
    {
      auto model = seeded();
      shard(*model, mesh);
      parameters = model->parameters();
      loss = at::cross_entropy_loss(model->forward(tokens()), tokens());
    }
    loss.backward();
    EXPECT_TRUE(parameters[0].grad().defined());
  });
}

TEST(FullyShard, FrozenAndIgnoredParametersStayAsTheyAre) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded();
    auto& block = *(*model->blocks)[0]->as<ParallelImpl<BlockImpl>>();
    block.up->weight.set_requires_grad(false);
    shard(*model, mesh, {.ignored_params = {block.norm->bias}});
    EXPECT_FALSE(is_dtensor(block.norm->bias));
    model->forward(tokens()).square().mean().backward();
    EXPECT_FALSE(block.up->weight.grad().defined());
    EXPECT_TRUE(block.down->weight.grad().defined());
    EXPECT_FALSE(is_dtensor(block.norm->bias.grad()));
  });
}

TEST(FullyShard, ParametersAreGatheredInAnotherDtype) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded();
    shard(*model, mesh, {.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat});
    const auto output = model->forward(tokens());
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    output.to(at::kFloat).square().mean().backward();
    EXPECT_EQ(model->output->weight.grad().scalar_type(), at::kFloat);
  });
}

/// A table that a head, declared Parallel as well, is tied to.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    replace_parameter(*head, "weight", table->weight);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    return head(table(tokens));
  }
  Parallel<torch::nn::Embedding> table = register_module("table", Parallel<torch::nn::Embedding>(7, 12));
  Parallel<torch::nn::Linear> head =
      register_module("head", Parallel<torch::nn::Linear>(torch::nn::LinearOptions(12, 7).bias(false)));
};
TORCH_MODULE(Tied);

TEST(FullyShard, AParameterIsInOneUnit) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto expect_error = [&](torch::nn::Module& module) {
      const auto text = error_text<c10::ValueError>([&] { fully_shard(module, mesh); });
      expect_contains(text, "[fully_shard] a parameter is in one unit, but 'weight' of a ");
      expect_contains(
          text, " is in another already. Leave modules that share it to the call for a module around them.");
    };
    Parallel<Tied> inside;
    fully_shard(*inside->table, mesh);
    expect_error(*inside);
    Parallel<Tied> besides;
    fully_shard(*besides->table, mesh);
    expect_error(*besides->head);
    Parallel<Tied> ignored;
    fully_shard(*ignored->table, mesh);
    fully_shard(*ignored, mesh, {.ignored_params = {ignored->head->weight}});
    EXPECT_FALSE(is_dtensor(ignored->head->weight));
    Parallel<Tied> around;
    fully_shard(*around, mesh);
    EXPECT_TRUE(around->head->weight.is_same(around->table->weight));
  });
}

TEST(FullyShard, AModuleForWhichItRaisesStaysAsItWas) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto model = seeded();
    const auto before = model->parameters();
    expect_contains(
        error_text<c10::ValueError>([&] { fully_shard(*model, mesh, {.reshard_to = 3}); }),
        "that divides the size of mesh dim");
    EXPECT_TRUE(units_of(*model).empty());
    const auto after = model->parameters();
    for (size_t k = 0; k < before.size(); ++k) {
      EXPECT_TRUE(after[k].is_same(before[k])) << "parameter " << k;
    }
    shard(*model, mesh);
    model->forward(tokens()).square().mean().backward();
  });
}

TEST(FullyShard, MisuseIsAnErrorThatSaysWhatToDo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    torch::nn::Linear plain(2, 2);
    expect_contains(
        error_text<c10::ValueError>([&] { fully_shard(*plain, mesh); }),
        "[fully_shard] a module that is declared Parallel is required, but torch::nn::LinearImpl is not.");
    Parallel<torch::nn::Linear> linear(2, 2);
    expect_contains(
        error_text<c10::ValueError>([&] { fully_shard(*linear, mesh, {.mesh_dim = "tp"}); }), "but got 'tp'");
    fully_shard(*linear, mesh);
    expect_contains(error_text<c10::ValueError>([&] { fully_shard(*linear, mesh); }), "a module is fully sharded once");
  });
}

} // namespace fully_shard_test
} // namespace weft::nn
