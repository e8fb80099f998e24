#include "examples/models/gpt2.h"
#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "examples/models/training.h"
#include "weft/nn/parallelize_module.h"

#include <gtest/gtest.h>

#include <map>

namespace weft {

namespace examples_communication_test {
using namespace models;

constexpr int64_t kLayers = 2;
constexpr int64_t kRows = 8;
constexpr int64_t kLength = 16;
constexpr int64_t kDim = 32;
constexpr int64_t kVocabulary = 64;
constexpr int64_t kFloat = 4;
constexpr int64_t kActivations = kRows * kLength * kDim * kFloat;

/// By collective and by what it is made for: "" where the plan asks for it, "gradient" of a parameter, or an operator.
struct Count {
  int64_t calls = 0;
  int64_t bytes = 0; // that a rank receives
  bool operator==(const Count&) const = default;
};
using Counts = std::map<std::string, Count>;

void PrintTo(const Count& count, std::ostream* out) {
  *out << count.calls << " calls " << count.bytes << " bytes";
}

struct StepCounts {
  Counts forward; // with the loss
  Counts backward;
};

/// Received from every other rank: all of the tensor, or a chunk of it.
Count all_reduces(int64_t ranks, int64_t calls, int64_t bytes) {
  return {calls, (ranks - 1) * bytes};
}
Count chunks(int64_t ranks, int64_t calls) {
  return {calls, calls * (ranks - 1) * kActivations / ranks};
}

/// After the embedding and after both halves of a layer activations are summed up. By sequences they are gathered before
/// both halves and before the output layer, and scattered where they are summed up.
Counts expected_forward(int64_t ranks, bool sequence_parallel) {
  constexpr int64_t kCalls = 2 * kLayers + 1;
  if (!sequence_parallel) {
    return {{"all_reduce ", all_reduces(ranks, kCalls, kCalls * kActivations)}};
  }
  return {{"all_gather ", chunks(ranks, kCalls)}, {"reduce_scatter ", chunks(ranks, kCalls)}};
}

/// Of every row the largest logit, then the sum of exponentials and the target's logit.
Counts expected_loss(int64_t ranks) {
  return {{"all_reduce aten::cross_entropy_loss", all_reduces(ranks, 2, 3 * kRows * kLength * kFloat)}};
}

/// The mirror of forward. Sequence-parallel ranks see a part of the sequence for what they hold all of: the weights of norms;
/// in GPT-2 their biases and the positions too. Their gradients are reduced together.
Counts expected_backward(int64_t ranks, bool sequence_parallel, bool is_gpt2) {
  auto expected = expected_forward(ranks, sequence_parallel);
  if (sequence_parallel) {
    constexpr int64_t kNorms = 2 * kLayers + 1;
    const auto rows = is_gpt2 ? 2 * kNorms + kLength : kNorms;
    expected["all_reduce gradient"] = all_reduces(ranks, 1, rows * kDim * kFloat);
  }
  return expected;
}

Counts counted(const CommLog& log) {
  Counts counts;
  for (const auto& row : log.rows()) {
    auto& count = counts[std::string(to_string(row.collective)) + " " + row.operator_name];
    count.calls += row.calls;
    count.bytes += row.bytes;
  }
  return counts;
}

/// Of the first rank, in the second step.
template <class Model>
StepCounts measured(const std::string& name, int64_t ranks, bool sequence_parallel) {
  StepCounts result;
  run_on_ranks(ranks, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {ranks}, {"tp"});
    Model model;
    initialize(*model);
    nn::parallelize_module(*model, mesh, nn::ParallelPlan::load(plan_file(name, sequence_parallel)));
    const auto batch = sequences(0, kRows, kLength, kVocabulary).distribute(mesh);
    Training training(model.ptr());
    training.step(batch);

    StepCounts step;
    CommLog log(mesh);
    const auto loss = loss_of(model->forward(batch.inputs), batch.targets);
    step.forward = counted(log);
    log.clear();
    loss.backward();
    step.backward = counted(log);
    if (rank == 0) {
      result = step;
    }
  });
  return result;
}

void expect_minimum(const StepCounts& step, int64_t ranks, bool sequence_parallel, bool is_gpt2) {
  auto forward = expected_forward(ranks, sequence_parallel);
  forward.merge(expected_loss(ranks));
  EXPECT_EQ(step.forward, forward);
  EXPECT_EQ(step.backward, expected_backward(ranks, sequence_parallel, is_gpt2));
}

TEST(ExamplesCommunication, AStepOfLlamaCommunicatesWhatOneWrittenByHandDoes) {
  for (const bool sequence_parallel : {false, true}) {
    expect_minimum(measured<Llama>("llama", 2, sequence_parallel), 2, sequence_parallel, /*is_gpt2=*/false);
  }
}

TEST(ExamplesCommunication, AStepOfGpt2CommunicatesWhatOneWrittenByHandDoes) {
  for (const int64_t ranks : {2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      expect_minimum(measured<Gpt2>("gpt2", ranks, sequence_parallel), ranks, sequence_parallel, /*is_gpt2=*/true);
    }
  }
}

} // namespace examples_communication_test

} // namespace weft
