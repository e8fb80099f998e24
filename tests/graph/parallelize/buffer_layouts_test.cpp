#include "weft/graph/parallelize/buffer_layouts.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace buffer_layouts_test {
/// Writes keys that are sharded by heads to a cache, and multiplies the cache by queries with the same layout.
Program with_cache() {
  return parse_program(R"(
program
input %wk: f32[8,8] = parameter "wk.weight"
input %keys_0: f32[2,4,6,2] = buffer "keys_0"
input %read_only: f32[4,6] = buffer "read_only"
input %x: f32[2,1,8] = user
input %at: i64[1] = user
  %linear: f32[2,1,8] = aten::linear(%x, %wk)
  %view: f32[2,1,4,2] = aten::view(%linear, [2, 1, 4, 2])
  %k: f32[2,4,1,2] = aten::transpose.int(%view, 1, 2)
  %cache: f32[2,4,6,2] = aten::index_put_(%keys_0, [None, None, %at], %k)
  %product: f32[2,4,6,2] = aten::mul.Tensor(%cache, %k)
  %sum: f32[2,6,2] = aten::sum.dim_IntList(%product, [1])
output %sum = user
)");
}

TEST(BufferLayouts, WrittenBuffersAreTriedAlongEveryDimThatTheRanksDivide) {
  const auto program = with_cache();
  const auto mesh = analysis_mesh("tp=2");
  std::vector<std::string> asked;
  const auto chosen = choose_buffer_layouts(program, mesh, 0, [&](const BufferLayouts& layouts) {
    asked.push_back(layouts.empty() ? "" : layouts.begin()->first + layouts.begin()->second.to_string());
    return asked.back() == "keys_0{S(1)}" ? 1.0 : 2.0;
  });
  EXPECT_EQ(asked, (std::vector<std::string>{"", "keys_0{S(0)}", "keys_0{S(1)}", "keys_0{S(2)}", "keys_0{S(3)}"}));
  ASSERT_EQ(chosen.size(), 1U);
  EXPECT_EQ(chosen.at("keys_0").to_string(), "{S(1)}");
}

TEST(BufferLayouts, ACacheOfKeysIsShardedByHeadsLikeTheKeys) {
  auto program = with_cache();
  shard(program, analysis_mesh("tp=2"), nn::ParallelPlan{{"wk", nn::colwise()}});
  EXPECT_EQ(program.inputs[1].value->layout->to_string(), "{S(1)}");
  const auto collectives = summarize(program).collectives;
  EXPECT_EQ(collectives.at("all_gather"), 0);
  EXPECT_EQ(collectives.at("all_reduce"), 1);
}

TEST(BufferLayouts, OneRankHasNothingToChoose) {
  EXPECT_TRUE(choose_buffer_layouts(with_cache(), analysis_mesh("tp=1"), 0, [](const BufferLayouts&) -> double {
                ADD_FAILURE() << "asked";
                return 0;
              }).empty());
}

} // namespace buffer_layouts_test

} // namespace weft::graph
