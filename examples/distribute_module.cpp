// A model made distributed without a plan: a function distributes its parameters, and two more are called before and after
// its forward. C++ modules have no hooks, so the model is declared Parallel; it is called as before, with plain tensors here.

#include "weft/nn/distribute_module.h"
#include "weft/nn/replace_parameters.h"
#include "weft/weft.h"

#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <iostream>

namespace {

struct PerceptronImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    return down(torch::relu(up(x)));
  }
  torch::nn::Linear up = register_module("up", torch::nn::Linear(8, 32));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(32, 4));
};
TORCH_MODULE(Perceptron);

using Tensors = std::vector<torch::Tensor>;

/// The features between the two layers are sharded. Everything else then follows from the weights.
void partition(const std::string& path, torch::nn::Module& module, const weft::DeviceMesh& mesh) {
  const auto place = [&](const char* name, const weft::Placement& placement) {
    const auto global = module.named_parameters()[name].detach();
    weft::nn::replace_parameter(module, name, weft::distribute_tensor(global, mesh, {placement}));
  };
  if (path == "up") {
    place("weight", weft::Shard(0));
    place("bias", weft::Shard(0));
  } else if (path == "down") {
    place("weight", weft::Shard(1));
  }
}

void run(const weft::DeviceMesh& mesh, bool prints) {
  Perceptron plain;
  weft::nn::Parallel<Perceptron> model;
  for (const auto& parameter : plain->named_parameters()) { // the same values in both
    torch::NoGradGuard no_grad;
    parameter.value().copy_(torch::arange(parameter.value().numel()).view_as(parameter.value()).sin());
    model->named_parameters()[parameter.key()].copy_(parameter.value());
  }
  weft::nn::distribute_module(
      *model, mesh, partition,
      [](Tensors inputs, const weft::DeviceMesh& on) {
        return Tensors{weft::distribute_tensor(inputs[0], on, {weft::Replicate()})};
      },
      [](Tensors outputs, const weft::DeviceMesh&) { return Tensors{weft::full_tensor(outputs[0])}; });

  const auto x = torch::ones({2, 8});
  const auto result = model(x);
  TORCH_CHECK(
      torch::allclose(result, plain(x), 1e-5, 1e-5), "[distribute_module] the result must be that of one device.");
  if (prints) {
    for (const auto& parameter : model->named_parameters()) {
      std::cout << parameter.key() << "  " << *weft::spec_of(parameter.value()) << "\n";
    }
    std::cout << "the output is that of one device\n";
  }
}

} // namespace

int main() {
  try {
    weft::run_on_ranks(2, [](int64_t rank) { run(weft::init_device_mesh("cpu", {2}, {"tp"}), rank == 0); });
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << "\n";
    return 1;
  }
  return 0;
}
