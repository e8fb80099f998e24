#include "weft/graph/report/explain.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace explain_test {
using testing::error_text;
using testing::expect_contains;

constexpr const char* kProgram = R"(program @ mesh(tp=2)
  input %w: f32[8,4] {S(0)} = parameter "up.weight"
  input %v: f32[4,8] {S(1)} = parameter "down.weight"
  input %x: f32[3,4] {R} = user
    %u: f32[3,8] {S(1)} = aten::linear(%x, %w) in up because "features are sharded"
    %d: f32[3,4] {P(sum)} = aten::linear(%u, %v) in down
    %r: f32[3,4] {R} = all_reduce(%d, tp: {P(sum)} -> {R}) in down
    %s: f32[3,4] {R} = aten::softmax.int(%r, -1) fallback because "no rule"
    %c: f32[3,4] {S(0)} = slice(%s, tp: {R} -> {S(0)})
  output %s = user
  output %c = user)";

TEST(Explain, SaysOfEachNodeItsLayoutAndItsRedistributions) {
  const auto explanation = explain(parse_program(kProgram));
  ASSERT_EQ(explanation.rows.size(), 6u);
  const auto& linear = explanation.rows[0];
  EXPECT_EQ(linear.target, "aten::linear");
  EXPECT_EQ(linear.reason, "features are sharded");
  EXPECT_EQ(linear.operands[1].layout, "{S(0)}");
  EXPECT_EQ(linear.outputs[0].type, "f32[3,8]");
  const auto& reduced = explanation.rows[2];
  EXPECT_TRUE(reduced.communicates);
  EXPECT_EQ(reduced.change, "tp: {P(sum)} -> {R}");
  EXPECT_EQ(reduced.reason, "for aten::softmax.int %s");
  EXPECT_GT(reduced.bytes, 0);
  EXPECT_TRUE(explanation.rows[3].is_fallback);
  EXPECT_FALSE(explanation.rows[4].communicates);
  EXPECT_EQ(explanation.rows[4].reason, "for the program's output");
  EXPECT_EQ(explanation.rows[5].target, "return");
}

TEST(Explain, CountsByModule) {
  const auto explanation = explain(parse_program(kProgram));
  ASSERT_EQ(explanation.modules.size(), 3u);
  EXPECT_EQ(explanation.modules[0].nodes, 6);
  EXPECT_EQ(explanation.modules[2].path, "down");
  EXPECT_EQ(explanation.modules[2].nodes, 2);
  EXPECT_EQ(explanation.modules[2].collectives, 1);
  EXPECT_EQ(explanation.modules[2].bytes, explanation.summary.bytes);
}

TEST(Explain, IsTextGroupedByModule) {
  const auto text = explain(parse_program(kProgram)).to_string();
  expect_contains(text, "  up.weight: f32[8,4] {S(0)}\n");
  expect_contains(text, R"(
up
  aten::linear %u: f32[3,4] {R}, f32[8,4] {S(0)} -> f32[3,8] {S(1)}
      features are sharded

down  [1 collective, 48 bytes]
  aten::linear %d: f32[3,8] {S(1)}, f32[4,8] {S(1)} -> f32[3,4] {P(sum)}
  => all_reduce tp: {P(sum)} -> {R}, 48 bytes, for aten::softmax.int %s

(the model itself)
  aten::softmax.int %s: f32[3,4] {R} -> f32[3,4] {R}  FALLBACK
      no rule
  -> slice tp: {R} -> {S(0)}, nothing moves, for the program's output
)");
}

TEST(Explain, OfOneNodeOrModuleSaysNothingElse) {
  const auto explanation = explain(parse_program(kProgram));
  EXPECT_EQ(
      explanation.to_string("u"),
      "\nup\n  aten::linear %u: f32[3,4] {R}, f32[8,4] {S(0)} -> f32[3,8] {S(1)}\n      features are sharded\n");
  expect_contains(explanation.to_json("down"), R"("nodes":[{"name":"d")");
  EXPECT_EQ(explanation.to_json("down").find("softmax.int\",\"module"), std::string::npos);
  EXPECT_EQ(
      error_text<c10::ValueError>([&] {
        explanation.to_string("dwn");
      }).rfind("[explain] a node or a module of the program is required, but got \"dwn\". The nearest are: down", 0),
      0u);
}

TEST(Explain, ShowsCollectivesThatOverlapMatmulsAndTheDecisions) {
  const auto program = parse_program(R"(program @ mesh(tp=2)
  input %w: f32[8,8] {S(1)} = parameter "w"
  input %x: f32[4,8] {S(0)} = user
    [%y: f32[4,8] {S(1)}] = weft::all_gather_matmul(%x, [%w], [], 0, None, 4, False, "tp") in up because "it runs beside it"
  output %y = user)");
  const OverlapDecision decision{
      .node = "all_gather", .module = "up", .kind = "all_gather", .group = "tp", .reason = "it is small"};
  const auto explanation = explain(program, {decision});
  EXPECT_TRUE(explanation.rows[0].communicates);
  EXPECT_EQ(explanation.rows[0].change, "tp: {S(0)} -> {R}");
  EXPECT_EQ(explanation.rows[0].bytes, 64);
  EXPECT_EQ(explanation.modules[1].collectives, 1);
  const auto text = explanation.to_string();
  expect_contains(
      text, "collectives that overlap matmuls\n  all_gather %all_gather over tp, in up: not fused, it is small\n");
  expect_contains(
      text,
      "  => weft::all_gather_matmul %y tp: {S(0)} -> {R}, 64 bytes in 4 chunks: f32[4,8] {S(0)}, f32[8,8] {S(1)} -> "
      "f32[4,8] {S(1)}\n      it runs beside it\n");
  const auto json = explanation.to_json();
  expect_contains(
      json, R"("overlap":[{"node":"all_gather","module":"up","kind":"all_gather","group":"tp","fused":false,)");
  expect_contains(json, R"("chunks":4,)");
}

} // namespace explain_test

} // namespace weft::graph
