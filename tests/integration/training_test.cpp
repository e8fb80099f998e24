#include "examples/models/training.h"
#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "weft/nn/parallelize_module.h"
#include "weft/tensor/dispatch.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim.h>

namespace weft {

namespace training_test {
using namespace models;

void on_mesh(c10::IntArrayRef shape, const std::function<void(const DeviceMesh& mesh)>& fn) {
  run_on_ranks(
      c10::multiply_integers(shape), [&](int64_t /*rank*/) { fn(init_device_mesh("cpu", shape, {"dp", "tp"})); });
}

/// With the same values on every rank, and as a plan says where there is one.
template <class Holder>
auto training_of(Holder model, const DeviceMesh* mesh = nullptr, const nn::ParallelPlan& plan = llama_plan()) {
  initialize(*model);
  if (mesh != nullptr) {
    nn::parallelize_module(*model, *mesh, plan);
  }
  return Training(model.ptr());
}

template <class MakeModel>
void expect_losses_of_one_device(
    c10::IntArrayRef mesh_shape,
    const MakeModel& make_model,
    const nn::ParallelPlan& plan,
    const std::function<Batch(int64_t step)>& batch) {
  constexpr int64_t kSteps = 20;
  std::vector<double> expected;
  auto single = training_of(make_model());
  for (int64_t step = 0; step < kSteps; ++step) {
    expected.push_back(single.step(batch(step)));
  }
  EXPECT_LT(expected.back(), 0.8 * expected.front()) << "it must learn something";
  on_mesh(mesh_shape, [&](const DeviceMesh& mesh) {
    SCOPED_TRACE(mesh.to_string());
    auto sharded = training_of(make_model(), &mesh, plan);
    for (int64_t step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(sharded.step(batch(step).distribute(mesh)), expected[step], 1e-5) << "in step " << step;
    }
  });
}

TEST(Training, APerceptronHasTheLossesOfOneDeviceOnAnyMesh) {
  for (const auto& mesh_shape : {std::vector<int64_t>{2, 2}, {1, 2}, {2, 1}, {1, 3}, {3, 1}}) {
    expect_losses_of_one_device(
        mesh_shape,
        [] { return torch::nn::Sequential(torch::nn::Linear(16, 64), torch::nn::ReLU(), torch::nn::Linear(64, 4)); },
        {{"0", nn::colwise()}, {"2", nn::rowwise()}}, [](int64_t step) { return points(step, 32, 16); });
  }
}

void expect_decoder_losses(c10::IntArrayRef mesh_shape, const LlamaSizes& sizes, int64_t rows) {
  expect_losses_of_one_device(
      mesh_shape, [&] { return Llama(sizes); }, llama_plan(),
      [&](int64_t step) { return sequences(step, rows, sizes.length, sizes.vocabulary); });
}

TEST(Training, ADecoderHasTheLossesOfOneDeviceOnAnyMesh) {
  for (const auto& mesh_shape : {std::vector<int64_t>{2, 2}, {1, 2}, {2, 1}}) {
    expect_decoder_losses(mesh_shape, {}, 8);
  }
}

TEST(Training, NothingHasToDivideEvenly) {
  expect_decoder_losses(
      {2, 2}, {.vocabulary = 37, .length = 7, .dim = 30, .layers = 1, .heads = 3, .kv_heads = 3, .hidden = 51}, 7);
}

/// A decoder on mesh(dp=2, tp=2) after one backward.
struct Prepared {
  explicit Prepared(const DeviceMesh& mesh) : training(training_of(Llama(), &mesh)) {
    const LlamaSizes sizes;
    batch = sequences(0, 8, sizes.length, sizes.vocabulary).distribute(mesh);
    training.loss(batch).backward();
  }
  Training<LlamaImpl> training;
  Batch batch;
};

TEST(Training, GradientsLieAsTheirParameters) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    Prepared decoder(mesh);
    for (const auto& parameter : decoder.training.model().named_parameters()) {
      EXPECT_EQ(spec_of(parameter.value().grad()), spec_of(parameter.value())) << parameter.key();
    }
  });
}

TEST(Training, GradientsAreReducedOverTheBatchOnceAndTogether) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const CommLog log(mesh);
    Prepared decoder(mesh);
    int64_t bytes = 0;
    for (const auto& parameter : decoder.training.model().parameters()) {
      bytes += static_cast<int64_t>(to_local(parameter).nbytes());
    }
    int64_t reductions = 0;
    for (const auto& row : log.rows()) {
      if (row.operator_name == "gradient" && row.mesh_dims.find("dp") != std::string::npos) {
        EXPECT_EQ(row.mesh_dims, "dp");
        EXPECT_EQ(row.bytes, bytes);
        reductions += row.calls;
      }
    }
    EXPECT_EQ(reductions, 1) << log.to_string();
  });
}

TEST(Training, OptimizersStepWithoutCommunication) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    Prepared decoder(mesh);
    const auto parameters = decoder.training.model().parameters();
    std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers = {
        std::make_shared<torch::optim::AdamW>(parameters),
        std::make_shared<torch::optim::Adam>(parameters, torch::optim::AdamOptions().amsgrad(true)),
        std::make_shared<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true)),
        std::make_shared<torch::optim::RMSprop>(parameters),
        std::make_shared<torch::optim::Adagrad>(parameters),
    };
    const CommLog log(mesh);
    for (const auto& optimizer : optimizers) {
      const StrictScope strict;
      optimizer->step();
      optimizer->step();
    }
    EXPECT_EQ(log.calls(), 0) << log.to_string();
  });
}

TEST(Training, GradientsAreClippedByTheNormOfAll) {
  const LlamaSizes sizes;
  auto single = training_of(Llama(sizes));
  single.loss(sequences(0, 8, sizes.length, sizes.vocabulary)).backward();
  const auto expected_norm = torch::nn::utils::clip_grad_norm_(single.model().parameters(), 0.5);
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    Prepared decoder(mesh);
    const auto norm = torch::nn::utils::clip_grad_norm_(decoder.training.model().parameters(), 0.5);
    EXPECT_NEAR(norm, expected_norm, 1e-5);
    const auto expected = single.model().named_parameters();
    for (const auto& parameter : decoder.training.model().named_parameters()) {
      const auto gradient = full_tensor(parameter.value().grad());
      EXPECT_TRUE(at::allclose(gradient, expected[parameter.key()].grad(), 1e-4, 1e-7)) << parameter.key();
    }
  });
}

/// Operators of this thread compute in bfloat16 where that is enough, while it lasts.
class Autocast {
 public:
  explicit Autocast(bool enabled) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

template <class Model>
double loss_of_a_pass(Training<Model>& training, const Batch& batch, bool lower) {
  at::Tensor loss;
  {
    const Autocast autocast(lower);
    loss = training.loss(batch);
  }
  loss.backward();
  return loss.template item<float>();
}

TEST(Training, AutocastMakesTheCollectivesOfFullPrecision) {
  const LlamaSizes sizes;
  const auto batch = sequences(0, 8, sizes.length, sizes.vocabulary);
  auto single = training_of(Llama(sizes));
  const auto expected_loss = loss_of_a_pass(single, batch, /*lower=*/true);
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    using Calls = std::vector<std::tuple<Collective, std::string, int64_t>>;
    const auto calls_of = [&](bool lower) {
      auto decoder = training_of(Llama(sizes), &mesh);
      const auto placed = batch.distribute(mesh);
      const CommLog log(mesh);
      const auto loss = loss_of_a_pass(decoder, placed, lower);
      EXPECT_TRUE(!lower || std::abs(loss - expected_loss) < 0.01 * expected_loss) << loss << " " << expected_loss;
      for (const auto& parameter : decoder.model().named_parameters()) {
        EXPECT_EQ(spec_of(parameter.value().grad()), spec_of(parameter.value())) << parameter.key();
      }
      Calls calls;
      for (const auto& row : log.rows()) {
        calls.emplace_back(row.collective, row.mesh_dims + " " + row.operator_name, row.calls);
      }
      return calls;
    };
    EXPECT_EQ(calls_of(true), calls_of(false));
  });
}

TEST(Training, CachesDoNotGrowAfterTheSecondStep) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    Prepared decoder(mesh);
    decoder.training.update();
    decoder.training.step(decoder.batch);
    const auto before = call_cache_counters();
    for (int64_t step = 0; step < 5; ++step) {
      decoder.training.step(decoder.batch);
    }
    EXPECT_EQ(call_cache_counters().misses, before.misses);
    EXPECT_GT(call_cache_counters().hits, before.hits);
  });
}

TEST(Training, RanksDecideAlike) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const DebugScope debug;
    Prepared decoder(mesh);
    decoder.training.update();
  });
}

} // namespace training_test

} // namespace weft
