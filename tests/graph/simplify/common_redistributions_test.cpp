#include "weft/graph/simplify/common_redistributions.h"

#include "tests/support/program_text.h"
#include "weft/graph/simplify/dead_code.h"

namespace weft::graph {

namespace common_redistributions_test {
using testing::expect_pass;
using testing::expect_unchanged;

TEST(CommonRedistributions, EqualStepsBecomeTheFirst) {
  expect_pass(
      common_redistributions,
      R"(program @ mesh(tp=2)
      input %x: f32[4] {P(sum)} = user
        %a: f32[4] {R} = all_reduce(%x, tp: {P(sum)} -> {R})
        %y: f32[4] {R} = aten::relu(%a)
        %b: f32[4] {R} = all_reduce(%x, tp: {P(sum)} -> {R})
        %z: f32[4] {R} = aten::mul.Tensor(%y, %b)
      output %z = user
      output %b = user)",
      R"(program @ mesh(tp=2)
      input %x: f32[4] {P(sum)} = user
        %a: f32[4] {R} = all_reduce(%x, tp: {P(sum)} -> {R})
        %y: f32[4] {R} = aten::relu(%a)
        %z: f32[4] {R} = aten::mul.Tensor(%y, %a)
      output %z = user
      output %a = user)");
}

TEST(CommonRedistributions, EqualChainsBecomeOne) {
  expect_pass(
      common_redistributions,
      R"(program @ mesh(dp=2,tp=2)
      input %x: f32[4,4] {S(0), P(sum)} = user
        %a: f32[4,4] {S(0), R} = all_reduce(%x, tp: {S(0), P(sum)} -> {S(0), R})
        %b: f32[4,4] {R, R} = all_gather(%a, dp: {S(0), R} -> {R, R})
        %c: f32[4,4] {S(0), R} = all_reduce(%x, tp: {S(0), P(sum)} -> {S(0), R})
        %d: f32[4,4] {R, R} = all_gather(%c, dp: {S(0), R} -> {R, R})
        %e: f32[4,4] {R, S(1)} = slice(%d, tp: {R, R} -> {R, S(1)})
      output %b = user
      output %e = user)",
      R"(program @ mesh(dp=2,tp=2)
      input %x: f32[4,4] {S(0), P(sum)} = user
        %a: f32[4,4] {S(0), R} = all_reduce(%x, tp: {S(0), P(sum)} -> {S(0), R})
        %b: f32[4,4] {R, R} = all_gather(%a, dp: {S(0), R} -> {R, R})
        %e: f32[4,4] {R, S(1)} = slice(%b, tp: {R, R} -> {R, S(1)})
      output %b = user
      output %e = user)");
}

TEST(CommonRedistributions, AStepBackGivesWhatWasThere) {
  const auto* before = R"(program @ mesh(tp=2)
      input %x: f32[4,4] {S(0)} = user
        %g: f32[4,4] {R} = all_gather(%x, tp: {S(0)} -> {R})
        %s: f32[4,4] {S(0)} = slice(%g, tp: {R} -> {S(0)})
        %y: f32[4,4] {S(0)} = aten::relu(%s)
      output %y = user)";
  expect_pass(
      common_redistributions, before,
      R"(program @ mesh(tp=2)
      input %x: f32[4,4] {S(0)} = user
        %g: f32[4,4] {R} = all_gather(%x, tp: {S(0)} -> {R})
        %y: f32[4,4] {S(0)} = aten::relu(%x)
      output %y = user)");
  expect_pass(
      [](Graph& graph) {
        const bool shared = common_redistributions(graph);
        return dead_code(graph) || shared;
      },
      before,
      R"(program @ mesh(tp=2)
      input %x: f32[4,4] {S(0)} = user
        %y: f32[4,4] {S(0)} = aten::relu(%x)
      output %y = user)");
}

TEST(CommonRedistributions, AFormThatExistsOnAnotherWayIsUsed) {
  expect_pass(
      common_redistributions,
      R"(program @ mesh(tp=2)
      input %x: f32[4,4] {P(sum)} = user
        %r: f32[4,4] {R} = all_reduce(%x, tp: {P(sum)} -> {R})
        %s: f32[4,4] {S(0)} = reduce_scatter(%x, tp: {P(sum)} -> {S(0)})
        %t: f32[4,4] {S(0)} = slice(%r, tp: {R} -> {S(0)})
        %p: f32[4,4] {P(sum)} = make_partial(%r, tp: {R} -> {P(sum)})
        %g: f32[4,4] {R} = all_gather(%s, tp: {S(0)} -> {R})
      output %r = user
      output %s = user
      output %t = user
      output %p = user
      output %g = user)",
      R"(program @ mesh(tp=2)
      input %x: f32[4,4] {P(sum)} = user
        %r: f32[4,4] {R} = all_reduce(%x, tp: {P(sum)} -> {R})
        %s: f32[4,4] {S(0)} = reduce_scatter(%x, tp: {P(sum)} -> {S(0)})
      output %r = user
      output %s = user
      output %s = user
      output %x = user
      output %r = user)");
}

TEST(CommonRedistributions, OtherTensorsAndOtherLayoutsStay) {
  expect_unchanged(
      common_redistributions,
      R"(program @ mesh(dp=2,tp=2)
      input %x: f32[4,4] {R, R} = user
      input %y: f32[4,4] {R, R} = user
        %a: f32[4,4] {R, S(0)} = slice(%x, tp: {R, R} -> {R, S(0)})
        %b: f32[4,4] {R, S(1)} = slice(%x, tp: {R, R} -> {R, S(1)})
        %c: f32[4,4] {S(0), S(0)} = slice(%x, dp,tp: {R, R} -> {S(0), S(0)})
        %d: f32[4,4] {S(0)[1], S(0)[0]} = slice(%x, dp,tp: {R, R} -> {S(0)[1], S(0)[0]})
        %e: f32[4,4] {R, S(0)} = slice(%y, tp: {R, R} -> {R, S(0)})
        %f: f32[4,4] {R, S(0)} = aten::relu(%a)
        %g: f32[4,4] {R, R} = all_gather(%f, tp: {R, S(0)} -> {R, R})
      output %g = user)");
}

TEST(CommonRedistributions, WhatIsWrittenToStays) {
  for (const auto* write :
       {"%w: f32[4,4] {S(0)} = aten::add_.Tensor(%x, 1)", "%w: f32[4,4] {R} = aten::add_.Tensor(%a, 1)"}) {
    expect_unchanged(common_redistributions, std::string(R"(program @ mesh(tp=2)
        input %x: f32[4,4] {S(0)} = user
          %a: f32[4,4] {R} = all_gather(%x, tp: {S(0)} -> {R})
          )") + write + R"(
          %b: f32[4,4] {R} = all_gather(%x, tp: {S(0)} -> {R})
          %c: f32[4,4] {S(0)} = slice(%b, tp: {R} -> {S(0)})
        output %a = user
        output %c = user)");
  }
}

} // namespace common_redistributions_test

} // namespace weft::graph
