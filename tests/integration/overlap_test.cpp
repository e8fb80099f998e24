#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "examples/models/training.h"
#include "tests/support/overlapped.h"
#include "tests/support/run_program.h"
#include "weft/graph/capture/capture.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/overlap/micro_pipeline.h"
#include "weft/graph/simplify/common_redistributions.h"
#include "weft/nn/parallelize_module.h"
#include "weft/tensor/dispatch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace overlap_test {
using namespace models;

/// The loss of a decoder, sequence parallel, and the gradients of its parameters, as a program.
graph::Program training_program(const DeviceMesh& mesh, const Batch& batch) {
  Llama model(LlamaSizes{});
  initialize(*model);
  nn::parallelize_module(*model, mesh, nn::ParallelPlan::load(plan_file("llama", /*sequence_parallel=*/true)));
  const auto parameters = parameters_of(*model);
  const OverlapScope as_steps(OverlapMode::Off);
  return graph::capture(
      [&](const std::vector<at::Tensor>& inputs) {
        const auto logits = redistribute(model->forward(inputs[0]), {Replicate()});
        const auto loss = loss_of(logits, inputs[1]);
        auto results = torch::autograd::grad({loss}, parameters);
        results.insert(results.begin(), loss);
        return results;
      },
      {batch.inputs, batch.targets});
}

/// The collectives that overlap matmuls, in order, and how many of them: "all_gather 3".
std::vector<std::string> fused_texts(const graph::OverlapDecisions& decisions) {
  std::vector<std::string> texts;
  for (const auto& decision : decisions) {
    if (decision.fused) {
      texts.push_back(c10::str(decision.kind, " ", decision.matmuls));
    }
  }
  return texts;
}

TEST(Overlap, ADecodersTrainingStepHasTheSameLossAndGradients) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto batch = sequences(0, 4, LlamaSizes{}.length, LlamaSizes{}.vocabulary).distribute(mesh);
    const OverlapScope as_steps(OverlapMode::Off);
    auto program = training_program(mesh, batch);
    graph::common_redistributions(*program.graph);
    const auto expected = testing::run_program(program, {batch.inputs, batch.targets});
    const auto decisions = graph::micro_pipeline(program, testing::overlap_options());
    graph::verify(program);
    // Per layer the gathers before queries, keys and values and before the gate, and the scatters behind both; the same
    // backward, where the scatters are of the sums. And the gather before the logits, and the scatter of its gradient.
    EXPECT_EQ(
        fused_texts(decisions),
        (std::vector<std::string>{
            "all_gather 3", "reduce_scatter 1", "all_gather 2", "reduce_scatter 1", "all_gather 3", "reduce_scatter 1",
            "all_gather 2", "reduce_scatter 1", "all_gather 1", "reduce_scatter 1", "all_gather 1", "reduce_scatter 2",
            "all_gather 1", "reduce_scatter 3", "all_gather 1", "reduce_scatter 2", "all_gather 1",
            "reduce_scatter 3"}));
    const auto results = testing::run_program(program, {batch.inputs, batch.targets});
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(at::allclose(full_tensor(results[i]), full_tensor(expected[i]), 1e-4, 1e-5)) << "output " << i;
    }
  });
}

} // namespace overlap_test

} // namespace weft
