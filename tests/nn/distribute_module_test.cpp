#include "weft/nn/distribute_module.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/nn/replace_parameters.h"
#include "weft/tensor/distribute.h"

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace weft::nn {

namespace distribute_module_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

struct PairImpl : torch::nn::Module {
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, int64_t times, at::Tensor y) {
    return {x * times, y};
  }
};
TORCH_MODULE(Pair);

struct CountImpl : torch::nn::Module {
  int64_t forward(const at::Tensor& x) {
    return x.numel();
  }
};
TORCH_MODULE(Count);

TEST(Parallel, IsTheModuleItselfUnderTheSameNames) {
  Parallel<torch::nn::Linear> linear(torch::nn::LinearOptions(4, 2).bias(false));
  EXPECT_NE(linear->as<torch::nn::Linear>(), nullptr);
  EXPECT_EQ(linear->named_parameters().keys(), std::vector<std::string>{"weight"});
  const auto x = at::ones({3, 4});
  expect_equal(linear(x), x.matmul(linear->weight.t()));
  torch::nn::Sequential both(linear, torch::nn::Linear(2, 2));
  EXPECT_EQ(both->forward(x).sizes(), (std::vector<int64_t>{3, 2}));
}

TEST(Parallel, FunctionsSeeTensorsByPositionAndGiveOthers) {
  Parallel<Pair> pair{};
  pair->add_input_fn([](Values values) {
    EXPECT_EQ(values.size(), 3);
    EXPECT_FALSE(values[1].defined());
    return Values{values[0] + 1, {}, values[2] * 10};
  });
  pair->add_output_fn([](Values values) { return Values{values[1], values[0]}; });
  const auto [first, second] = pair(at::ones({2}), 3, at::ones({2}));
  expect_equal(first, at::full({2}, 10.0));
  expect_equal(second, at::full({2}, 6.0));
}

TEST(Parallel, AFunctionThatLosesATensorIsAnError) {
  Parallel<Pair> pair{};
  pair->add_output_fn([](const Values& values) { return Values{values[0]}; });
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { pair(at::ones({2}), 3, at::ones({2})); }),
      "[Parallel] an input or output function must give as many tensors as it is given, 2, but gave 1.");
}

TEST(Parallel, AnOutputThatIsNoTensorCannotHaveAFunction) {
  Parallel<Count> count{};
  EXPECT_EQ(count(at::ones({2})), 2);
  count->add_output_fn([](Values values) { return values; });
  expect_contains(
      error_text<c10::NotImplementedError>([&] { count(at::ones({2})); }),
      "a tensor or a tuple of tensors is required");
}

TEST(DistributeModule, ReplicatesWhatThePartitionFunctionLeaves) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Parallel<torch::nn::Linear> linear(4, 6);
    std::vector<std::string> paths;
    distribute_module(*linear, mesh, [&](const std::string& path, torch::nn::Module& module, const DeviceMesh& on) {
      paths.push_back(path);
      auto& weight = module.as<torch::nn::Linear>()->weight;
      replace_parameter(module, "weight", distribute_tensor(weight.detach(), on, {Shard(0)}));
    });
    EXPECT_EQ(paths, std::vector<std::string>{""});
    EXPECT_EQ(spec_of(linear->weight)->layout(), Layout{Shard(0)});
    EXPECT_EQ(spec_of(linear->bias)->layout(), Layout{Replicate()});
    EXPECT_TRUE(linear->weight.requires_grad());
  });
}

TEST(DistributeModule, CallsTheFunctionsAroundForward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Parallel<torch::nn::Linear> linear(torch::nn::LinearOptions(4, 6).bias(false));
    distribute_module(
        *linear, mesh, {},
        [](Values values, const DeviceMesh& on) { return Values{distribute_tensor(values[0], on, {Shard(0)})}; },
        [](Values values, const DeviceMesh&) { return Values{full_tensor(values[0])}; });
    const auto result = linear(at::ones({4, 4}));
    EXPECT_FALSE(is_dtensor(result));
    at::Tensor weight = full_tensor(linear->weight);
    EXPECT_TRUE(at::allclose(result, at::ones({4, 4}).matmul(weight.t())));
  });
}

TEST(DistributeModule, FunctionsNeedAModuleThatIsParallel) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    torch::nn::Linear linear(4, 6);
    expect_contains(
        error_text<c10::ValueError>(
            [&] { distribute_module(*linear, mesh, {}, [](Values values, const DeviceMesh&) { return values; }); }),
        "[distribute_module] a module with an input or output function must be declared Parallel, but "
        "torch::nn::LinearImpl is not.");
    EXPECT_FALSE(is_dtensor(linear->weight));
  });
}

} // namespace distribute_module_test

} // namespace weft::nn
