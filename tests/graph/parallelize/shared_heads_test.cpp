#include "weft/graph/parallelize/shared_heads.h"

#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/deploy/thread_ranks.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace shared_heads_test {
std::string attention(int64_t heads, int64_t shared, const std::string& query_layout) {
  const auto q = "f32[2," + std::to_string(heads) + ",3,2]";
  const auto k = "f32[2," + std::to_string(shared) + ",3,2]";
  const auto layout = query_layout.empty() ? std::string() : " " + query_layout;
  const auto replicated = query_layout.empty() ? std::string() : std::string(" {R}");
  return "program" + std::string(query_layout.empty() ? "" : " @ mesh(tp=4)") + "\ninput %q: " + q + layout +
      " = user\ninput %k: " + k + replicated + " = user\ninput %v: " + k + replicated + " = user\n  %a: " + q + layout +
      " = aten::scaled_dot_product_attention(%q, %k, %v, None, 0.0, False, enable_gqa=True)\noutput %a = user\n";
}

bool repeats(int64_t heads, int64_t shared, const std::string& query_layout) {
  auto program = parse_program(attention(heads, shared, query_layout));
  return repeat_shared_heads(*program.graph, program.graph->first(), *program.mesh);
}

TEST(SharedHeads, AreRepeatedUntilEveryRankHasOne) {
  auto program = parse_program(attention(8, 2, "{S(1)}"));
  EXPECT_TRUE(repeat_shared_heads(*program.graph, program.graph->first(), *program.mesh));
  EXPECT_EQ(
      to_string(*program.graph->first()),
      "%repeat_interleave: f32[2,4,3,2] {R} = aten::repeat_interleave.self_int(%k, 2, 1)");
}

TEST(SharedHeads, StayIfTheRanksDivideThemOrTheQueryIsReplicated) {
  EXPECT_FALSE(repeats(8, 4, "{S(1)}"));
  EXPECT_FALSE(repeats(8, 8, "{S(1)}"));
  EXPECT_FALSE(repeats(8, 2, "{R}"));
  EXPECT_FALSE(repeats(6, 3, "{S(1)}"));
}

TEST(SharedHeads, NothingMovesAndTheResultIsThatOfOneDevice) {
  at::manual_seed(0);
  const std::vector<at::Tensor> in = {at::randn({2, 8, 3, 2}), at::randn({2, 2, 3, 2}), at::randn({2, 2, 3, 2})};
  auto program = parse_program(attention(8, 2, ""));
  TensorParallelOptions options;
  options.inputs.emplace("q", Layout({Shard(1)}));
  options.outputs.emplace(0, Layout({Shard(1)}));
  shard(program, analysis_mesh("tp=4"), {}, options);
  EXPECT_EQ(summarize(program).bytes, 0);
  std::vector<std::shared_ptr<const Program>> ranks;
  std::vector<std::vector<c10::IValue>> inputs;
  for (int64_t rank = 0; rank < 4; ++rank) {
    ranks.push_back(std::make_shared<const Program>(program_of_rank(program, rank)));
    EXPECT_EQ(to_string(*ranks.back()).find("repeat_interleave"), std::string::npos);
    inputs.push_back({in[0].narrow(1, 2 * rank, 2).contiguous(), in[1], in[2]});
  }
  const auto outputs = ThreadRanks(ranks).run(inputs);
  const auto expected = at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, false, std::nullopt, true);
  for (int64_t rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(at::allclose(outputs[rank][0].toTensor(), expected.narrow(1, 2 * rank, 2), 1e-5, 1e-6));
  }
}

} // namespace shared_heads_test

} // namespace weft::graph
