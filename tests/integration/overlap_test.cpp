#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "examples/models/training.h"
#include "tests/support/overlapped.h"
#include "weft/graph/capture/capture.h"
#include "weft/graph/exec/executor.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/passes/shard.h"
#include "weft/nn/parallelize_module.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {
namespace {

using namespace models;

/// The loss and the gradients of a decoder, sequence parallel, as a program: of whole tensors, with layouts.
graph::Program training_program(const DeviceMesh& mesh, const Batch& batch) {
  const LlamaSizes sizes;
  Llama model(sizes);
  initialize(*model);
  nn::parallelize_module(*model, mesh, nn::ParallelPlan::load(plan_file("llama", /*sequence_parallel=*/true)));
  const auto parameters = parameters_of(*model);
  const OverlapScope as_steps(OverlapMode::Off);
  auto program = graph::capture(
      [&](const std::vector<at::Tensor>& inputs) {
        const auto loss = loss_of(model->forward(inputs[0]), inputs[1]);
        auto results = torch::autograd::grad({loss}, parameters);
        results.insert(results.begin(), loss);
        return results;
      },
      {batch.inputs, batch.targets});
  for (auto& [name, tensor] : program.tensors) {
    tensor = is_dtensor(tensor) ? full_tensor(tensor.detach()) : tensor.detach();
  }
  return program;
}

TEST(Overlap, ADecodersTrainingStepHasTheSameLossAndGradients) {
  run_on_ranks(2, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto whole = sequences(0, 4, LlamaSizes{}.length, LlamaSizes{}.vocabulary);
    const auto batch = whole.distribute(mesh);
    std::vector<std::vector<c10::IValue>> results;
    for (const auto mode : {OverlapMode::Off, OverlapMode::Force}) {
      auto program = training_program(mesh, batch);
      const auto decisions = graph::micro_pipeline(program, testing::overlap_options(mode));
      graph::verify(program);
      if (mode == OverlapMode::Force && rank == 0) {
        if (std::getenv("WEFT_PRINT_OVERLAP") != nullptr) {
          for (const auto& decision : decisions) {
            std::cout << decision.to_string() << "\n";
          }
          std::cout << graph::to_string(program);
        }
      }
      auto own = std::make_shared<const graph::Program>(graph::program_of_rank(program, rank));
      graph::verify(*own);
      results.push_back(graph::Executor(own, mesh).run({to_local(batch.inputs), to_local(batch.targets)}));
    }
    for (size_t i = 0; i < results[0].size(); ++i) {
      EXPECT_TRUE(at::allclose(results[1][i].toTensor(), results[0][i].toTensor(), 1e-4, 1e-6)) << "output " << i;
    }
  });
}

} // namespace
} // namespace weft
