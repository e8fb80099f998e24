#include "examples/models/gpt2.h"
#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "examples/models/training.h"
#include "weft/nn/parallelize_module.h"

#include <gtest/gtest.h>

#include <map>

namespace weft {
namespace {

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
  Counts forward;
  Counts backward;
  Counts loss;
};

/// From every other rank all, or a piece.
Count all_reduces(int64_t ranks, int64_t calls, int64_t bytes) {
  return {calls, (ranks - 1) * bytes};
}
Count pieces(int64_t ranks, int64_t calls) {
  return {calls, calls * (ranks - 1) * kActivations / ranks};
}

/// After the embedding and after both halves of a layer activations are summed up. By sequences they are gathered before
/// both halves and before the output layer, and scattered where they are summed up.
Counts expected_forward(int64_t ranks, bool sequence_parallel) {
  constexpr int64_t kCalls = 2 * kLayers + 1;
  if (!sequence_parallel) {
    return {{"all_reduce ", all_reduces(ranks, kCalls, kCalls * kActivations)}};
  }
  return {{"all_gather ", pieces(ranks, kCalls)}, {"reduce_scatter ", pieces(ranks, kCalls)}};
}

/// The mirror of that. Sequence-parallel ranks see a part of the sequence for what they hold all of: the weights of norms; in
/// GPT-2 their biases and the positions too.
Counts expected_backward(int64_t ranks, bool sequence_parallel, bool is_gpt2) {
  auto expected = expected_forward(ranks, sequence_parallel);
  if (sequence_parallel) {
    constexpr int64_t kNorms = 2 * kLayers + 1;
    expected["all_reduce gradient"] = is_gpt2
        ? all_reduces(ranks, 2 * kNorms + 1, (2 * kNorms + kLength) * kDim * kFloat)
        : all_reduces(ranks, kNorms, kNorms * kDim * kFloat);
  }
  return expected;
}

/// The classes of logits are brought together, for other rows each, and their gradient goes back; the mean is summed up.
Counts expected_loss(int64_t ranks) {
  const auto moved = (ranks - 1) * kRows * kLength * kVocabulary * kFloat / (ranks * ranks);
  return {
      {"all_to_all aten::_log_softmax", {1, moved}},
      {"all_to_all gradient", {1, moved}},
      {"all_reduce aten::nll_loss_forward", {1, (ranks - 1) * kFloat}},
  };
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

/// Of the first rank, in the second step: forward, backward from gradients of the logits that lie as these, and loss.
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
    const auto logits = model->forward(batch.inputs);
    step.forward = counted(log);
    log.clear();
    logits.backward(torch::ones_like(logits));
    step.backward = counted(log);
    log.clear();
    const auto leaf = logits.detach().requires_grad_();
    loss_of(leaf, batch.targets).backward();
    step.loss = counted(log);
    if (rank == 0) {
      result = step;
    }
  });
  return result;
}

TEST(ExamplesCommunication, AStepOfLlamaCommunicatesWhatOneWrittenByHandDoes) {
  for (const bool sequence_parallel : {false, true}) {
    const auto step = measured<Llama>("llama", 2, sequence_parallel);
    EXPECT_EQ(step.forward, expected_forward(2, sequence_parallel));
    EXPECT_EQ(step.backward, expected_backward(2, sequence_parallel, /*is_gpt2=*/false));
    EXPECT_EQ(step.loss, expected_loss(2));
  }
}

TEST(ExamplesCommunication, AStepOfGpt2CommunicatesWhatOneWrittenByHandDoes) {
  for (const int64_t ranks : {2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      const auto step = measured<Gpt2>("gpt2", ranks, sequence_parallel);
      EXPECT_EQ(step.forward, expected_forward(ranks, sequence_parallel));
      EXPECT_EQ(step.backward, expected_backward(ranks, sequence_parallel, /*is_gpt2=*/true));
      EXPECT_EQ(step.loss, expected_loss(ranks));
    }
  }
}

} // namespace
} // namespace weft
