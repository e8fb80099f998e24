#include "bench/executor_decoder.h"
#include "bench/serve.h"

#include "weft/graph/exec/executor.h"

#include <c10/core/InferenceMode.h>

namespace {

using namespace weft;
using bench::TimedCall;
using Weights = bench::DecoderWeights<at::Tensor>;

constexpr const char* kUsage =
    "executor_main: the benchmark 'executor', started by bench/run.py. Reads '<calls> <dim> <case>' from stdin, where "
    "the\n"
    "case is 'hand' for the operators of a decoder called one by one, or 'executor' for a program of them, and prints "
    "the\n"
    "microseconds of CPU time of each call.\n";

constexpr int64_t kVocabulary = 1024, kBlocks = 4, kHeads = 8, kBatch = 2, kLength = 64;

Weights make_weights(int64_t dim) {
  // So that views of them cost as little on either side.
  const c10::InferenceMode inference;
  at::manual_seed(0);
  const auto matrix = [](int64_t rows, int64_t columns) { return at::randn({rows, columns}) * 0.02; };
  Weights weights{matrix(kVocabulary, dim), {}, at::ones({dim}), matrix(kVocabulary, dim)};
  for (int64_t i = 0; i < kBlocks; ++i) {
    weights.blocks.push_back(
        {at::ones({dim}), matrix(dim, dim), matrix(dim, dim), matrix(dim, dim), matrix(dim, dim), at::ones({dim}),
         matrix(4 * dim, dim), matrix(4 * dim, dim), matrix(dim, 4 * dim)});
  }
  return weights;
}

std::shared_ptr<const graph::Program> make_program(const Weights& weights, int64_t dim) {
  auto program = std::make_shared<graph::Program>();
  const auto parameter = [&](const at::Tensor& tensor) {
    const auto name = "weight" + std::to_string(program->tensors.size());
    auto* value = program->graph->add_input(name, graph::TensorType{});
    program->inputs.push_back({graph::InputKind::Parameter, name, true, std::nullopt, value});
    program->tensors.emplace(name, tensor);
    return value;
  };
  bench::DecoderWeights<graph::Value*> values{
      parameter(weights.tokens), {}, parameter(weights.norm), parameter(weights.logits)};
  for (const auto& block : weights.blocks) {
    values.blocks.push_back(
        {parameter(block.attention_norm), parameter(block.query), parameter(block.key), parameter(block.value),
         parameter(block.output), parameter(block.feed_forward_norm), parameter(block.gate), parameter(block.up),
         parameter(block.down)});
  }
  auto* tokens = program->graph->add_input("tokens", graph::contiguous_type(at::kLong, {kBatch, kLength}));
  program->inputs.push_back({graph::InputKind::User, {}, true, std::nullopt, tokens});
  auto* logits = bench::decoder(bench::GraphOps{*program->graph}, values, tokens, dim / kHeads);
  program->graph->set_return({logits});
  program->outputs.push_back({});
  return program;
}

TimedCall make_call(const std::string& name, int64_t dim) {
  const auto weights = make_weights(dim);
  const auto tokens = at::randint(kVocabulary, {kBatch, kLength});
  if (name == "hand") {
    return [=] {
      const c10::InferenceMode inference;
      return bench::decoder(bench::EagerOps(), weights, tokens, dim / kHeads);
    };
  }
  TORCH_CHECK_VALUE(name == "executor", "[executor_main] a case must be 'hand' or 'executor', but got '", name, "'.");
  const auto executor = std::make_shared<graph::Executor>(make_program(weights, dim));
  const auto by_hand = make_call("hand", dim)();
  TORCH_CHECK(
      at::equal(executor->run({tokens})[0].toTensor(), by_hand), "[executor_main] the executor gives other numbers.");
  return [=] { return executor->run({tokens})[0].toTensor(); };
}

} // namespace

int main(int argc, char** argv) {
  return bench::serve(argc, argv, kUsage, [] { return bench::Cases{make_call, [] {}, bench::cpu_microseconds}; });
}
