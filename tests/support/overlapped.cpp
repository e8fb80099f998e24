#include "tests/support/overlapped.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/deploy/thread_ranks.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/localize/global_values.h"
#include "weft/graph/overlap/micro_pipeline.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::testing {

using namespace weft::graph;

OverlapOptions overlap_options(OverlapMode mode) {
  return {
      .mode = mode,
      .link = Link{.latency_seconds = 50e-6, .bytes_per_second = 125e6},
      .compute = Compute{.flops_per_second = 100e9, .bytes_per_second = 25e9, .call_seconds = 2e-6}};
}

Overlapped overlapped(std::string_view text, OverlapMode mode) {
  auto program = parse_program(text);
  verify(program);
  Overlapped result;
  result.decisions = micro_pipeline(program, overlap_options(mode));
  verify(program);
  result.program = to_string(program);
  for (const auto& decision : result.decisions) {
    result.lines.push_back(
        "%" + decision.node + ": " +
        (decision.fused ? c10::str("fused with ", decision.matmuls, decision.matmuls == 1 ? " matmul" : " matmuls")
                        : decision.reason));
  }
  micro_pipeline(program, overlap_options(mode));
  EXPECT_EQ(to_string(program), result.program) << "a second run changes it";
  return result;
}

void expect_overlapped(std::string_view before, std::string_view after) {
  const auto result = overlapped(before);
  EXPECT_EQ(result.program, to_string(parse_program(after))) << c10::Join("\n", result.lines);
}

void expect_not_overlapped(std::string_view text, const std::string& why) {
  const auto result = overlapped(text);
  EXPECT_EQ(result.program, to_string(parse_program(text)));
  ASSERT_EQ(result.decisions.size(), 1);
  EXPECT_EQ(result.decisions[0].reason, why);
}

OverlapDecisions expect_same_overlapped(const std::string& text) {
  OverlapDecisions decisions;
  std::vector<std::vector<std::vector<c10::IValue>>> results;
  std::string fused;
  for (const auto mode : {OverlapMode::Off, OverlapMode::Force}) {
    auto program = parse_program(text);
    decisions = micro_pipeline(program, overlap_options(mode));
    verify(program);
    fused = to_string(program);
    at::manual_seed(0);
    std::vector<at::Tensor> inputs;
    for (const auto& input : program.inputs) {
      std::vector<int64_t> sizes;
      for (const auto& size : input.value->tensor().sizes) {
        sizes.push_back(size.number());
      }
      const auto drawn = at::randn(sizes).to(input.value->tensor().dtype);
      if (input.kind == InputKind::User) {
        inputs.push_back(drawn);
      } else {
        program.tensors[input.target] = drawn;
      }
    }
    std::vector<std::shared_ptr<const Program>> ranks;
    std::vector<std::vector<c10::IValue>> values;
    for (const auto rank : program.mesh->ranks()) {
      ranks.push_back(std::make_shared<const Program>(program_of_rank(program, rank)));
      verify(*ranks.back());
      auto& own = values.emplace_back();
      size_t next = 0;
      for (const auto& input : program.inputs) {
        if (input.kind == InputKind::User) {
          own.emplace_back(local_value(inputs[next++], *input.value->layout, place_in(*program.mesh, rank)).clone());
        }
      }
    }
    results.push_back(ThreadRanks(ranks).run(values));
  }
  for (size_t rank = 0; rank < results[0].size(); ++rank) {
    for (size_t i = 0; i < results[0][rank].size(); ++i) {
      const auto& wanted = results[0][rank][i].toTensor();
      const auto& actual = results[1][rank][i].toTensor();
      EXPECT_EQ(actual.sizes(), wanted.sizes()) << fused;
      const bool is_long = c10::elementSize(wanted.scalar_type()) >= 4;
      EXPECT_TRUE(
          actual.sizes() == wanted.sizes() &&
          at::allclose(actual, wanted, is_long ? 1e-4 : 2e-2, is_long ? 1e-5 : 2e-2))
          << "output " << i << " of rank " << rank << " differs:\n"
          << fused;
    }
  }
  return decisions;
}

} // namespace weft::testing
