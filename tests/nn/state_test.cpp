#include "weft/nn/state.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/nn/parallelize_module.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <filesystem>

namespace weft::nn {

namespace state_test {

namespace optim = torch::optim;
using weft::testing::error_text;
using weft::testing::expect_contains;

struct TwoLayersImpl : torch::nn::Module {
  TwoLayersImpl() {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : parameters()) {
      parameter.copy_(at::sin(at::arange(parameter.numel(), at::kFloat)).view(parameter.sizes()) / 3);
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    return down(at::tanh(up(x)));
  }
  torch::nn::Linear up = register_module("up", torch::nn::Linear(4, 6));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(6, 3));
};
TORCH_MODULE(TwoLayers);

std::string new_path(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) / ("weft_state_" + name);
  std::filesystem::remove_all(path);
  return path.string();
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<at::Tensor>)>;

template <class Class, class Options>
MakeOptimizer maker(Options options) {
  return
      [options](std::vector<at::Tensor> parameters) { return std::make_unique<Class>(std::move(parameters), options); };
}

std::map<std::string, MakeOptimizer> optimizers() {
  return {
      {"Adam", maker<optim::Adam>(optim::AdamOptions(0.05).amsgrad(true))},
      {"AdamW", maker<optim::AdamW>(optim::AdamWOptions(0.05))},
      {"SGD", maker<optim::SGD>(optim::SGDOptions(0.05).momentum(0.9))},
      {"RMSprop", maker<optim::RMSprop>(optim::RMSpropOptions(0.05).momentum(0.9).centered(true))},
      {"Adagrad", maker<optim::Adagrad>(optim::AdagradOptions(0.05))}};
}

/// A model on a mesh, or on one device, in training.
struct TrainedModel {
  explicit TrainedModel(const MakeOptimizer& make, const DeviceMesh& of_mesh = {}) : mesh(of_mesh) {
    if (mesh.defined()) {
      parallelize_module(*model, mesh, ParallelPlan::parse(R"({"up": "colwise", "down": "rowwise"})"));
    }
    optimizer = make(model->parameters());
  }

  double step(int64_t index) {
    auto x = at::cos(at::arange(20, at::kFloat) + index).view({5, 4});
    if (mesh.defined()) {
      x = distribute_tensor(x, mesh, {Replicate()});
    }
    optimizer->zero_grad();
    const auto loss = model->forward(x).square().mean();
    loss.backward();
    optimizer->step();
    return loss.item<double>();
  }

  DeviceMesh mesh;
  TwoLayers model;
  std::unique_ptr<optim::Optimizer> optimizer;
};

TEST(TrainingState, GoesOnOnAnotherMesh) {
  for (const auto& [name, make] : optimizers()) {
    SCOPED_TRACE(name);
    const auto folder = new_path(name);
    TrainedModel plain(make);
    std::vector<double> expected;
    for (int64_t i = 0; i < 6; ++i) {
      if (i == 3) {
        plain.optimizer->param_groups()[0].options().set_lr(0.02);
      }
      expected.push_back(plain.step(i));
    }
    run_on_ranks(2, [&](int64_t /*rank*/) {
      TrainedModel run(make, init_device_mesh("cpu", {2}, {"tp"}));
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(run.step(i), expected[i], 1e-5);
      }
      run.optimizer->param_groups()[0].options().set_lr(0.02);
      manual_seed(11);
      save(training_state(*run.model, *run.optimizer, {{"step", 3}}), folder);
    });
    for (const int64_t steps_before : {0, 1}) {
      run_on_ranks(3, [&](int64_t /*rank*/) {
        TrainedModel run(make, init_device_mesh("cpu", {3}, {"tp"}));
        for (int64_t i = 0; i < steps_before; ++i) {
          run.step(i);
        }
        State values = {{"step", 0}};
        load_training_state(*run.model, *run.optimizer, values, folder);
        EXPECT_EQ(values.at("step").toInt(), 3);
        EXPECT_EQ(random_state(), (RandomState{11, 0}));
        for (int64_t i = 3; i < 6; ++i) {
          EXPECT_NEAR(run.step(i), expected[i], 1e-5);
        }
      });
    }
  }
}

TEST(TrainingState, OfAnotherProgramRaises) {
  const auto folder = new_path("other");
  TrainedModel run(optimizers().at("AdamW"));
  run.step(0);
  save(training_state(*run.model, *run.optimizer), folder);
  const auto before = run.model->up->weight.clone();
  const auto error_of = [&](torch::nn::Module& module, optim::Optimizer& optimizer, State values = {}) {
    return error_text<c10::ValueError>([&] { load_training_state(module, optimizer, values, folder); });
  };
  optim::SGD sgd(run.model->parameters(), 0.1);
  expect_contains(
      error_of(*run.model, sgd), "the state of the optimizer SGD is required, but it has that of \"AdamW\".");
  expect_contains(
      error_of(*run.model, *run.optimizer, {{"epoch", 0}}), "the value 'epoch' must be in it, but it is not");
  optim::AdamW two_groups(
      {optim::OptimizerParamGroup(run.model->up->parameters()),
       optim::OptimizerParamGroup(run.model->down->parameters())});
  expect_contains(error_of(*run.model, two_groups), "the value 'optimizer.groups.1.amsgrad' must be in it");
  torch::nn::Linear other(4, 6);
  optim::AdamW of_other(other->parameters());
  expect_contains(error_of(*other, of_other), "they lack 'model.down.bias'");
  expect_contains(
      error_text<c10::ValueError>([&] { state_of(*run.optimizer, *other); }),
      "[state_of] every parameter of the optimizer must be one of the module, but one of shape [6, 4] is not.");
  optim::LBFGS lbfgs(run.model->parameters());
  expect_contains(
      error_text<c10::NotImplementedError>([&] { state_of(lbfgs, *run.model); }),
      "[state_of] Adam, AdamW, SGD, RMSprop or Adagrad of torch::optim is required, but got torch::optim::LBFGS.");
  EXPECT_TRUE(run.model->up->weight.equal(before));
}

} // namespace state_test

} // namespace weft::nn
