#include "weft/graph/overlap/node_times.h"

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/verify.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace node_times_test {
constexpr Link kLink{.latency_seconds = 0.5, .bytes_per_second = 1};
/// A device that computes one operation a second, and whose memory takes no time.
constexpr Compute kCompute{.flops_per_second = 1, .bytes_per_second = 1e30, .call_seconds = 0};

/// The seconds that all nodes of a program compute, and those that they communicate.
std::pair<double, double> seconds_of(const std::string& text, const Compute& compute = kCompute) {
  const auto program = parse_program(text);
  verify(program);
  const NodeTimes times(program, kLink, compute);
  std::pair<double, double> total;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    total.first += times.compute_seconds(*node);
    total.second += times.collective_seconds(*node);
  }
  return total;
}

std::string call(const std::string& inputs, const std::string& node) {
  std::string text = "program\n";
  text += inputs + "\n " + node + "\n output %y = user";
  return text;
}

TEST(NodeTimes, MatmulsOfAllKindsCount) {
  const std::string pair =
      "input %a: f32[2,3] = user\ninput %b: f32[3,5] = user\ninput %c: f32[2,5] = user\n"
      "input %w: f32[5,3] = user";
  EXPECT_EQ(seconds_of(call(pair, "%y: f32[2,5] = aten::mm(%a, %b)")).first, 60);
  EXPECT_EQ(seconds_of(call(pair, "%y: f32[2,5] = aten::matmul(%a, %b)")).first, 60);
  EXPECT_EQ(seconds_of(call(pair, "%y: f32[2,5] = aten::addmm(%c, %a, %b)")).first, 60);
  EXPECT_EQ(seconds_of(call(pair, "%y: f32[2,5] = aten::linear(%a, %w)")).first, 60);
  EXPECT_EQ(seconds_of(call(pair, "%y: f32[2,3] = aten::relu(%a)")).first, 0);
  const std::string batches = "input %a: f32[7,2,3] = user\ninput %b: f32[7,3,5] = user\ninput %c: f32[7,2,5] = user";
  EXPECT_EQ(seconds_of(call(batches, "%y: f32[7,2,5] = aten::bmm(%a, %b)")).first, 420);
  EXPECT_EQ(seconds_of(call(batches, "%y: f32[7,2,5] = aten::baddbmm(%c, %a, %b)")).first, 420);
}

TEST(NodeTimes, ConvolutionAndAttentionCount) {
  EXPECT_EQ(
      seconds_of(call(
                     "input %x: f32[1,2,6,6] = user\ninput %w: f32[4,2,3,3] = user",
                     "%y: f32[1,4,4,4] = aten::convolution(%x, %w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)"))
          .first,
      2 * 64 * 18);
  EXPECT_EQ(
      seconds_of(call(
                     "input %q: f32[1,2,5,8] = user\ninput %k: f32[1,2,7,8] = user",
                     "%y: f32[1,2,5,8] = aten::scaled_dot_product_attention(%q, %k, %k)"))
          .first,
      2 * 2 * 2 * 5 * 7 * 8);
}

TEST(NodeTimes, AMatmulTakesItsCallAndTheLongerOfWorkAndMemory) {
  const auto text = call("input %a: f32[2,3] = user\ninput %b: f32[3,5] = user", "%y: f32[2,5] = aten::mm(%a, %b)");
  EXPECT_EQ(seconds_of(text, {.flops_per_second = 10, .bytes_per_second = 1e30, .call_seconds = 2}).first, 8);
  EXPECT_EQ(seconds_of(text, {.flops_per_second = 1e30, .bytes_per_second = 4, .call_seconds = 2}).first, 33);
}

TEST(NodeTimes, InAParallelProgramARankComputesWithItsShards) {
  const auto mm = [](const std::string& a, const std::string& b, const std::string& y) {
    return seconds_of(
               "program @ mesh(dp=2,tp=3)\n input %a: f32[6,6] {" + a + "} = user\n input %b: f32[6,6] {" + b +
               "} = user\n %y: f32[6,6] {" + y + "} = aten::mm(%a, %b)\n output %y = user")
        .first;
  };
  EXPECT_EQ(mm("R, R", "R, R", "R, R"), 432);
  EXPECT_EQ(mm("S(0), R", "R, S(1)", "S(0), S(1)"), 72);
  EXPECT_EQ(mm("S(0), S(1)", "R, S(0)", "S(0), P(sum)"), 72);
  EXPECT_EQ(mm("P(sum), R", "R, R", "P(sum), R"), 432);
}

TEST(NodeTimes, SymbolsAreWhatTheyWereAtTheExport) {
  EXPECT_EQ(
      seconds_of("program\n symbol s0 = 4 in [2, 64]\n input %a: f32[s0,3] = user\n input %b: f32[3,5] = user\n"
                 "%y: f32[s0,5] = aten::mm(%a, %b)\n output %y = user")
          .first,
      120);
}

TEST(NodeTimes, CollectivesTakeTheLatencyAndWhatARankGets) {
  const auto text = [](const std::string& call, const std::string& type) {
    return "program @ mesh(tp=4)\n input %x: f32[4,2] = user\n %y: " + type + " = _c10d_functional::" + call +
        "\n output %y = user";
  };
  EXPECT_EQ(seconds_of(text("all_gather_into_tensor(%x, 4, \"tp\")", "f32[16,2]")).second, 0.5 + 96);
  EXPECT_EQ(seconds_of(text("reduce_scatter_tensor(%x, \"sum\", 4, \"tp\")", "f32[1,2]")).second, 0.5 + 24);
  EXPECT_EQ(seconds_of(text("all_reduce(%x, \"sum\", \"tp\")", "f32[4,2]")).second, 0.5 + 64);
  const auto step = seconds_of(
      "program @ mesh(tp=4)\n input %x: f32[16,2] {S(0)} = user\n"
      "%y: f32[16,2] {R} = all_gather(%x, tp: {S(0)} -> {R})\n output %y = user");
  EXPECT_NEAR(step.second, 0.5 + 96, 1e-6);
}

} // namespace node_times_test

} // namespace weft::graph
