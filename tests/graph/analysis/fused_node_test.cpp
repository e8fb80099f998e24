#include "weft/graph/analysis/fused_node.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/localize/bucket_collectives.h"
#include "weft/graph/localize/hoist_collectives.h"
#include "weft/graph/localize/localize.h"
#include "weft/graph/simplify/dead_code.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace fused_node_test {
const std::string kPair = R"(program @ mesh(dp=2,tp=2)
input %w: f32[8,8] {R, S(1)} = parameter "w"
input %v: f32[8,8] {R, S(0)} = parameter "v"
input %x: f32[4,6,8] {S(0), S(1)} = user
  [%a: f32[4,6,8] {S(0), S(2)}] = weft::all_gather_matmul(%x, [%w], [], 1, None, 2, False, "tp")
  %b: f32[4,6,8] {S(0), S(1)} = weft::matmul_reduce_scatter([%a], [%v], None, "sum", 1, 4, "tp")
output %b = user
)";

TEST(FusedNode, KnowsTheCollectiveInside) {
  const auto program = parse_program(kPair);
  const auto* gather = program.graph->first();
  const auto fused = fused_node(*gather);
  ASSERT_TRUE(fused);
  EXPECT_TRUE(fused->is_gather);
  EXPECT_EQ(fused->chunks, 2);
  EXPECT_EQ(fused->moved, program.inputs[2].value);
  EXPECT_EQ(step_inside(*gather, *fused, *program.mesh).to_string(*program.mesh), "all_gather(tp: S(1) -> R)");
  const auto scatter = fused_node(*gather->next());
  EXPECT_EQ(
      step_inside(*gather->next(), *scatter, *program.mesh).to_string(*program.mesh),
      "reduce_scatter(tp: P(sum) -> S(1))");
  EXPECT_FALSE(fused_node(*program.graph->return_node()));
  EXPECT_EQ(mesh_dims_named(*program.mesh, "dp,tp"), (MeshDims{0, 1}));
  EXPECT_EQ(mesh_dims_named(*program.mesh, "7"), std::nullopt);
}

TEST(FusedNode, CountsAsItsCollective) {
  const auto summary = summarize(parse_program(kPair));
  EXPECT_EQ(summary.collectives.at("all_gather"), 1);
  EXPECT_EQ(summary.collectives.at("reduce_scatter"), 1);
  EXPECT_EQ(summary.overlapped, 2);
  // A rank receives half of the 2 x 6 x 8 elements that its group gathers, and as many of the reduced ones.
  EXPECT_EQ(summary.bytes, 2 * 2 * 3 * 8 * 4);
  EXPECT_NE(summary.to_string().find("2 of them overlapping matmuls"), std::string::npos) << summary.to_string();
}

TEST(FusedNode, OfARankHasLocalSizesAndTheGroupsName) {
  const auto program = parse_program(kPair);
  const auto own = to_string(localize(program, 1, {.group_names = {{"tp", "7"}}}));
  EXPECT_NE(
      own.find("[%a: f32[2,6,4]] = weft::all_gather_matmul(%x, [%w], [], 1, None, 2, False, \"7\")"), std::string::npos)
      << own;
  EXPECT_NE(
      own.find("%b: f32[2,3,8] = weft::matmul_reduce_scatter([%a], [%v], None, \"sum\", 1, 4, \"7\")"),
      std::string::npos)
      << own;
}

TEST(FusedNode, IsNeededByOthersOnceItIsARanks) {
  auto program = parse_program(kPair);
  auto local = localize(program, 0);
  EXPECT_TRUE(communicates(*program.graph->first()));
  EXPECT_FALSE(has_side_effects(*program.graph->first()));
  EXPECT_TRUE(has_side_effects(*local.graph->first()));
}

TEST(FusedNode, KeepsItsPlaceAmongCollectives) {
  // Without the fused node in between, both all_reduces could start at once or be bucketed.
  const std::string text = R"(program @ mesh(tp=2)
input %w: f32[8,8] = user
input %x: f32[4,8] = user
  %r: f32[4,8] = _c10d_functional::all_reduce(%x, "sum", "tp")
  [%a: f32[8,8]] = weft::all_gather_matmul(%x, [%w], [], 0, None, 1, False, "tp")
  %s: f32[4,8] = _c10d_functional::all_reduce(%x, "sum", "tp")
  %t: f32[4,8] = _c10d_functional::wait_tensor(%r)
  %u: f32[4,8] = _c10d_functional::wait_tensor(%s)
output %t = user
output %u = user
)";
  auto program = parse_program(text);
  const auto unchanged = to_string(program);
  EXPECT_FALSE(bucket_collectives(*program.graph));
  EXPECT_FALSE(dead_code(*program.graph));
  hoist_collectives(*program.graph);
  EXPECT_EQ(to_string(program), unchanged);
}

} // namespace fused_node_test

} // namespace weft::graph
