#include "weft/graph/overlap/micro_pipeline.h"

#include "tests/support/decoder_text.h"
#include "tests/support/overlapped.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/deploy/thread_ranks.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace micro_pipeline_test {
using testing::decoder;
using testing::expect_same_overlapped;
using testing::overlap_options;
using testing::overlapped;

TEST(MicroPipeline, FusesFourPairsPerLayer) {
  const auto decisions = expect_same_overlapped(decoder(2));
  ASSERT_EQ(decisions.size(), 8);
  std::vector<std::string> kinds;
  for (const auto& decision : decisions) {
    EXPECT_TRUE(decision.fused) << decision.to_string();
    kinds.push_back(decision.node);
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"g0", "s0", "h0", "t0", "g1", "s1", "h1", "t1"}))
      << "in the program's order";
}

TEST(MicroPipeline, AnAllReduceOfARanksProgramIsSplitWhereTheMembersAreKnown) {
  const auto decided = [](std::map<std::string, int64_t> members) {
    auto program = parse_program(R"(program
input %w: f32[8,8] = user
input %x: f32[4,8] = user
  %m: f32[4,8] = aten::mm(%x, %w)
  %r: f32[4,8] = _c10d_functional::all_reduce(%m, "sum", "0")
  %v: f32[4,8] = _c10d_functional::wait_tensor(%r)
output %v = user
)");
    return micro_pipeline(program, {.mode = OverlapMode::Force, .members = std::move(members)});
  };
  EXPECT_EQ(
      decided({{"1", 2}}).at(0).reason, "the number of members of 0 is not known: it is no dim of the program's mesh");
  const auto known = decided({{"0", 2}});
  ASSERT_EQ(known.size(), 2U); // the gather of the split all-reduce too
  EXPECT_TRUE(known[0].fused);
}

TEST(MicroPipeline, OffChangesNothing) {
  const auto result = overlapped(decoder(1), OverlapMode::Off);
  EXPECT_TRUE(result.decisions.empty());
  EXPECT_EQ(result.program, to_string(parse_program(decoder(1))));
}

TEST(MicroPipeline, OfTensorsThisSmallNothingPays) {
  const auto result = overlapped(decoder(1), OverlapMode::Auto);
  ASSERT_EQ(result.lines.size(), 4);
  EXPECT_EQ(result.lines[0], "%g0: too little is sent or computed for any link");
  EXPECT_EQ(result.program, to_string(parse_program(decoder(1))));
}

constexpr const char* kAllReduceBetweenMatmuls = R"(program @ mesh(tp=2)
input %w: f32[16,16] {S(1)} = parameter "w"
input %v: f32[16,16] {S(0)} = parameter "v"
input %x: f32[8,16] {S(1)} = user
  %y: f32[8,16] {P(sum)} = aten::linear(%x, %w)
  %z: f32[8,16] {R} = all_reduce(%y, tp: {P(sum)} -> {R})
  %u: f32[8,16] {S(1)} = aten::linear(%z, %v)
output %u = user
)";

TEST(MicroPipeline, BothHalvesOfASplitAllReduceOverlapMatmuls) {
  const auto decisions = expect_same_overlapped(kAllReduceBetweenMatmuls);
  ASSERT_EQ(decisions.size(), 2);
  EXPECT_EQ(decisions[0].node, "z");
  EXPECT_EQ(decisions[1].kind, "all_gather");
  EXPECT_TRUE(decisions[0].fused && decisions[1].fused);
}

TEST(MicroPipeline, SoDoTheyInTheProgramsOfRanks) {
  const auto global = parse_program(kAllReduceBetweenMatmuls);
  std::vector<std::vector<std::vector<c10::IValue>>> results;
  for (const auto mode : {OverlapMode::Off, OverlapMode::Force}) {
    at::manual_seed(0);
    std::vector<std::shared_ptr<const Program>> ranks;
    std::vector<std::vector<c10::IValue>> inputs;
    for (const int64_t rank : {0, 1}) {
      auto program = program_of_rank(global, rank);
      program.tensors = {{"w", at::randn({16, 8})}, {"v", at::randn({8, 16})}};
      inputs.push_back({at::randn({8, 8})});
      const auto decisions = micro_pipeline(program, overlap_options(mode));
      verify(program);
      if (mode == OverlapMode::Force) {
        ASSERT_EQ(decisions.size(), 2);
        EXPECT_EQ(decisions[0].kind, "all_reduce");
        EXPECT_TRUE(decisions[0].fused && decisions[1].fused) << decisions[0].reason << '\n' << decisions[1].reason;
      }
      ranks.push_back(std::make_shared<const Program>(std::move(program)));
    }
    results.push_back(ThreadRanks(ranks).run(inputs));
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(at::allclose(results[0][rank][0].toTensor(), results[1][rank][0].toTensor(), 1e-4, 1e-5));
  }
}

TEST(MicroPipeline, AMatmulOverlapsOneCollective) {
  const auto result = overlapped(R"(program @ mesh(dp=2,tp=2)
input %w: f32[16,16] {S(0), S(1)} = parameter "w"
input %x: f32[8,16] {S(1), S(0)} = user
  %g: f32[8,16] {S(1), R} = all_gather(%x, tp: {S(1), S(0)} -> {S(1), R})
  %y: f32[8,16] {P(sum), S(1)} = aten::mm(%g, %w)
  %z: f32[8,16] {S(0), S(1)} = reduce_scatter(%y, dp: {P(sum), S(1)} -> {S(0), S(1)})
output %z = user
)");
  EXPECT_EQ(
      result.lines,
      (std::vector<std::string>{
          "%g: %matmul_reduce_scatter overlaps another collective already", "%z: fused with 1 matmul"}));
}

} // namespace micro_pipeline_test

} // namespace weft::graph
