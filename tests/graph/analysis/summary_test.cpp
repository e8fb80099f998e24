#include "weft/graph/analysis/summary.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"

namespace weft::graph {

namespace summary_test {
using namespace weft::testing;

constexpr const char* kText = R"(
program @ mesh(tp=2)
symbol s0 = 4 in [2, 64]
input %w: f32[9,8] {S(0)} = parameter "w"
input %b: f32[9] {R} = parameter "b"
input %x: f32[s0,8] {R} = user
  %linear: f32[s0,9] {S(1)} = aten::linear(%x, %w)
  %all_gather: f32[s0,9] {R} = all_gather(%linear, tp: {S(1)} -> {R})
  %cummax: f32[s0,9] {R}, %indices: i64[s0,9] {R} = aten::cummax(%all_gather, 0) fallback
  %slice: f32[s0,9] {S(0)} = slice(%cummax, tp: {R} -> {S(0)})
output %slice = user
)";

TEST(Summary, CountsWhatMovesAndWhatRanksHold) {
  const auto summary = summarize(parse_program(kText));
  EXPECT_EQ(summary.collectives.at("all_gather"), 1);
  EXPECT_EQ(summary.collectives.at("all_reduce"), 0);
  EXPECT_EQ(summary.bytes, 4 * 9 * 4 / 2); // half of the gathered tensor comes from the other rank
  EXPECT_EQ(summary.parameters, 81);
  EXPECT_EQ(summary.parameters_per_rank, (std::vector<int64_t>{5 * 8 + 9, 4 * 8 + 9}));
  EXPECT_EQ(summary.fallbacks.at("aten::cummax"), 1);
  EXPECT_EQ(
      summary.to_json(),
      R"({"nodes":5,"collectives":{"all_gather":1,"all_reduce":0,"all_to_all":0,"reduce_scatter":0},"overlapped":0,"bytes":72,)"
      R"("parameters":81,"parameters_least":41,"parameters_most":49,"parameters_per_rank":[49,41],)"
      R"("fallbacks":[{"op":"aten::cummax","count":1}]})");
}

TEST(Summary, TheTimeOfALocalStepIsNextToNothing) {
  const auto program = parse_program(kText);
  const auto* gather = program.graph->first()->next();
  EXPECT_EQ(received_bytes(program, *gather), 72);
  EXPECT_EQ(received_bytes(program, *gather->next()->next()), 0);
  EXPECT_GT(communication_seconds(program), 0);
  EXPECT_EQ(hints(program).at("s0"), 4);
}

TEST(Summary, AProgramThatIsNotShardedHasNone) {
  const auto program = parse_program("program\ninput %x: f32[4] = user\noutput %x = user\n");
  expect_contains(
      error_text<c10::ValueError>([&] { summarize(program); }),
      "[summarize] a program that tensor_parallel made parallel is required.");
}

} // namespace summary_test

} // namespace weft::graph
