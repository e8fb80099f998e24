#include "weft/graph/localize/localize_lookup.h"

#include "tests/support/error_text.h"
#include "tests/support/sharded_run.h"

namespace weft::graph {

namespace localize_lookup_test {
using namespace weft::testing;

TEST(LocalizeLookup, EveryRankLooksUpItsRowsOfAShardedTable) {
  // With five rows, of which positions below four are drawn, the last of four ranks has none.
  const auto text = R"(
program
input %w: f32[5,3] = parameter "table.weight"
input %at: i64[2,7] = user
  %y: f32[2,7,3] = aten::embedding(%w, %at)
output %y = user
)";
  for (const auto* mesh : {"tp=2", "tp=3", "tp=4", "tp=7"}) {
    const auto run = expect_same_sharded(text, mesh, {{"table", nn::rowwise()}});
    EXPECT_EQ(run.summary.collectives.at("all_reduce"), 1) << mesh;
    EXPECT_EQ(run.summary.collectives.at("all_gather"), 0) << mesh;
  }
}

TEST(LocalizeLookup, PositionsThatNoRankHoldsAreRefused) {
  const auto text = R"(
program
input %w: f32[2,3] = parameter "table.weight"
input %at: i64[2,7] = user
  %y: f32[2,7,3] = aten::embedding(%w, %at)
output %y = user
)";
  expect_contains(
      error_text<std::exception>([&] { expect_same_sharded(text, "tp=2", {{"table", nn::rowwise()}}); }),
      "out of range");
}

TEST(LocalizeLookup, EveryRankGathersItsElementsOfAShardedDim) {
  // With five features, the last of four ranks has none: then they are gathered.
  const auto text = R"(
program
input %w: f32[5,3] = parameter "up.weight"
input %x: f32[6,3] = user
input %at: i64[6,2] = user
  %h: f32[6,5] = aten::linear(%x, %w)
  %y: f32[6,2] = aten::gather(%h, 1, %at)
output %y = user
)";
  for (const auto* mesh : {"tp=2", "tp=3", "tp=4", "tp=7"}) {
    const auto run = expect_same_sharded(text, mesh, {{"up", nn::colwise()}});
    const bool every_rank_has_some = mesh == std::string("tp=2") || mesh == std::string("tp=3");
    EXPECT_EQ(run.summary.collectives.at("all_reduce"), every_rank_has_some ? 1 : 0) << run.text;
    EXPECT_EQ(run.summary.collectives.at("all_gather"), every_rank_has_some ? 0 : 1) << run.text;
  }
}

TEST(LocalizeLookup, ElementsThatNoRankHoldsAreRefused) {
  const auto text = R"(
program
input %w: f32[2,3] = parameter "up.weight"
input %x: f32[6,3] = user
input %at: i64[6,1] = user
  %h: f32[6,2] = aten::linear(%x, %w)
  %y: f32[6,1] = aten::gather(%h, 1, %at)
output %y = user
)";
  expect_contains(
      error_text<std::exception>([&] { expect_same_sharded(text, "tp=2", {{"up", nn::colwise()}}); }), "out of ");
}

} // namespace localize_lookup_test

} // namespace weft::graph
