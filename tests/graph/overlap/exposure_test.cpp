#include "weft/graph/overlap/exposure.h"

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/localize/hoist_collectives.h"

#include <c10/util/StringUtil.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace exposure_test {
bool is_matmul(const Node& node) {
  return target_name(node) == "aten::mm";
}

/// Every collective takes `collective` seconds and every matmul one: "%r 1 of 1 by %a", a line each.
std::string exposure_text(const Program& program, double collective, size_t in_flight = 16) {
  const auto found = find_exposure(
      program,
      {.collective = [&](const Node&) { return collective; },
       .compute = [](const Node& node) { return is_matmul(node) ? 1.0 : 0.0; }},
      in_flight);
  std::string text;
  for (const auto& each : found.collectives) {
    text += c10::str("%", each.collective->output()->name(), " ", each.hidden, " of ", each.seconds);
    for (const auto* node : each.by) {
      text += c10::str(node == each.by[0] ? " by %" : " %", node->output()->name());
    }
    text += "\n";
  }
  return text;
}

/// The exposure, which must be the same before and after hoist_collectives, because it is a model of that pass.
std::string exposure_of(const std::string& text, double collective = 1, size_t in_flight = 16) {
  auto program = parse_program(text);
  verify(program);
  const auto found = exposure_text(program, collective, in_flight);
  hoist_collectives(*program.graph, in_flight);
  EXPECT_EQ(exposure_text(program, collective, in_flight), found) << text;
  return found;
}

TEST(Exposure, AMatmulThatNeitherNeedsNorIsNeededHidesOne) {
  // The gather of the input and the scatter of its result are hidden; the gather of the scattered shard is not.
  EXPECT_EQ(
      exposure_of(R"(program
      input %x: f32[4,4] = user
        %t: f32[4,4|1,4] = aten::permute(%x, [1, 0])
        %a: f32[4,4] = aten::mm(%x, %t)
        %g: f32[8,4] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %b: f32[8,4] = _c10d_functional::wait_tensor(%g)
        %c: f32[8,4] = aten::mm(%b, %t)
        %r: f32[4,4] = _c10d_functional::reduce_scatter_tensor(%b, "avg", 2, "0")
        %d: f32[4,4] = _c10d_functional::wait_tensor(%r)
        %h: f32[8,4] = _c10d_functional::all_gather_into_tensor(%d, 2, "0")
        %e: f32[8,4] = _c10d_functional::wait_tensor(%h)
      output %a = user
      output %c = user
      output %e = user)"),
      "%g 1 of 1 by %a\n"
      "%r 1 of 1 by %c\n"
      "%h 0 of 1\n");
}

const char* const kTwoReductions = R"(program
      input %x: f32[4,4] = user
      input %p: f32[4,4] = user
      input %q: f32[4,4] = user
        %r: f32[4,4] = _c10d_functional::all_reduce(%p, "sum", "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
        %a: f32[4,4] = aten::mm(%x, %x)
        %b: f32[4,4] = aten::mm(%a, %x)
        %s: f32[4,4] = _c10d_functional::all_reduce(%q, "sum", "0")
        %v: f32[4,4] = _c10d_functional::wait_tensor(%s)
        %c: f32[4,4] = aten::mm(%b, %x)
        %d: f32[4,4] = aten::add.Tensor(%w, %c)
        %e: f32[4,4] = aten::add.Tensor(%v, %d)
      output %e = user)";

TEST(Exposure, OneMatmulHidesSeveralAndSeveralHideOne) {
  EXPECT_EQ(exposure_of(kTwoReductions, 0.5), "%r 0.5 of 0.5 by %a\n%s 0.5 of 0.5 by %a\n");
  EXPECT_EQ(exposure_of(kTwoReductions, 1.5), "%r 1.5 of 1.5 by %a %b\n%s 1.5 of 1.5 by %b %c\n");
  EXPECT_EQ(exposure_of(kTwoReductions, 2), "%r 2 of 2 by %a %b\n%s 1 of 2 by %c\n");
  EXPECT_EQ(exposure_of(kTwoReductions, 4), "%r 3 of 4 by %a %b %c\n%s 0 of 4\n");
}

TEST(Exposure, NoMoreAreUnderWayThanAsked) {
  // The second starts when the first has been waited for, which is where it is already.
  EXPECT_EQ(exposure_of(kTwoReductions, 2, 1), "%r 2 of 2 by %a %b\n%s 1 of 2 by %c\n");
  EXPECT_EQ(exposure_of(kTwoReductions, 0.5, 1), "%r 0.5 of 0.5 by %a\n%s 0.5 of 0.5 by %c\n");
}

TEST(Exposure, WhatIsNeededOrNeedsItHidesNothing) {
  EXPECT_EQ(
      exposure_of(R"(program
      input %x: f32[4,4] = user
        %a: f32[4,4] = aten::mm(%x, %x)
        %r: f32[4,4] = _c10d_functional::all_reduce(%a, "sum", "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
        %b: f32[4,4] = aten::mm(%w, %x)
      output %b = user)"),
      "%r 0 of 1\n");
}

TEST(Exposure, ACollectiveStartsNotBeforeTheOneAheadOfIt) {
  EXPECT_EQ(
      exposure_of(R"(program
      input %x: f32[4,4] = user
        %a: f32[4,4] = aten::mm(%x, %x)
        %r: f32[4,4] = _c10d_functional::all_reduce(%a, "sum", "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
        %s: f32[4,4] = _c10d_functional::all_reduce(%x, "sum", "0")
        %v: f32[4,4] = _c10d_functional::wait_tensor(%s)
        %b: f32[4,4] = aten::add.Tensor(%w, %v)
      output %b = user)"),
      "%r 0 of 1\n%s 0 of 1\n");
}

TEST(Exposure, WhatIsNotOnlyAwaitedIsWaitedForWhereItStands) {
  const std::string text = R"(program
      input %x: f32[4,4] = user
      input %p: f32[4,4] = user
        %r: f32[4,4] = _c10d_functional::all_reduce(%p, "sum", "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
        %a: f32[4,4] = aten::mm(%x, %x)
        %b: f32[4,4] = aten::add.Tensor(%w, %a)
      output %b = user
      )";
  EXPECT_EQ(exposure_of(text), "%r 1 of 1 by %a\n");
  EXPECT_EQ(exposure_of(text + "output %r = user"), "%r 0 of 1\n");
}

TEST(Exposure, AWriteToItsMemoryIsNotPassed) {
  EXPECT_EQ(
      exposure_of(
          R"(program
      input %x: f32[4,4] = user
      input %p: f32[4,4] = user
        %y: f32[4,4] = aten::relu(%p)
        %a: f32[4,4] = aten::mm(%x, %x)
        %i: f32[4,4] = aten::relu_(%y)
        %r: f32[4,4] = _c10d_functional::all_reduce(%y, "sum", "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
        %b: f32[4,4] = aten::mm(%x, %a)
        %j: f32[4,4] = aten::relu_(%y)
        %c: f32[4,4] = aten::mm(%x, %b)
        %d: f32[4,4] = aten::add.Tensor(%w, %c)
      output %d = user)",
          3),
      "%r 1 of 3 by %b\n");
}

TEST(Exposure, AStepStartsAndIsWaitedForAsItWillBeWhenItIsLocalized) {
  const auto text = [](const std::string& kind, const std::string& before, const std::string& after) {
    return "program @ mesh(tp=2)\n input %x: f32[4,4] {R} = user\n input %p: f32[4,4] {" + before +
        "} = user\n %a: f32[4,4] {R} = aten::mm(%x, %x)\n %r: f32[4,4] {" + after + "} = " + kind + "(%p, tp: {" +
        before + "} -> {" + after + "})\n %b: f32[4,4] {R} = aten::mm(%x, %a)\n %c: f32[4,4] {" + after +
        "} = aten::relu(%r)\n output %b = user\n output %c = user";
  };
  EXPECT_EQ(exposure_of(text("all_reduce", "P(sum)", "R"), 2), "%r 2 of 2 by %a %b\n");
  // The division is behind the wait.
  EXPECT_EQ(exposure_of(text("all_reduce", "P(avg)", "R"), 2), "%r 1 of 2 by %a\n");
  EXPECT_EQ(exposure_of(text("all_gather", "S(0)", "R"), 2), "%r 2 of 2 by %a %b\n");
  // Shards are joined behind the wait, and split before the start.
  EXPECT_EQ(exposure_of(text("all_gather", "S(1)", "R"), 2), "%r 1 of 2 by %a\n");
  EXPECT_EQ(exposure_of(text("reduce_scatter", "P(sum)", "S(0)"), 2), "%r 2 of 2 by %a %b\n");
  EXPECT_EQ(exposure_of(text("reduce_scatter", "P(sum)", "S(1)"), 2), "%r 1 of 2 by %b\n");
  EXPECT_EQ(exposure_of(text("all_to_all", "S(0)", "S(1)"), 2), "%r 0 of 2\n");
}

TEST(Exposure, LooksAtEverythingAFewTimesAtMost) {
  const auto looked_at = [](int layers) {
    std::string text = R"(program
      input %x: f32[4,4] = user
      input %p: f32[4,4] = user
      )";
    for (int i = 0; i < layers; ++i) {
      const auto n = std::to_string(i);
      text += "%a" + n + ": f32[4,4] = aten::mm(%x, %x)\n%r" + n +
          ": f32[4,4] = _c10d_functional::all_reduce(%p, \"sum\", \"0\")\n%w" + n +
          ": f32[4,4] = _c10d_functional::wait_tensor(%r" + n + ")\n";
    }
    text += "%z: f32[4,4] = aten::relu(%x)\n";
    for (int i = 0; i < layers; ++i) {
      text += "output %w" + std::to_string(i) + " = user\n";
    }
    const auto program = parse_program(text);
    // Every collective could take the time of all matmuls: the first takes it, and the others skip these matmuls.
    const auto found = find_exposure(
        program,
        {.collective = [&](const Node&) { return double(layers); },
         .compute = [](const Node& node) { return is_matmul(node) ? 1.0 : 0.0; }},
        layers);
    EXPECT_EQ(found.collectives[0].hidden, layers);
    return found.looked_at;
  };
  // 50,000 nodes cost five times what 10,000 do.
  EXPECT_LE(looked_at(16667), 5 * looked_at(3334));
  EXPECT_LE(looked_at(16667), 4 * 50000U);
}

} // namespace exposure_test

} // namespace weft::graph
