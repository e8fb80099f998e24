#include "weft/graph/overlap/scatter_producers.h"

#include "tests/support/overlapped.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace scatter_producers_test {
using testing::expect_not_overlapped;

/// A program of two ranks with `nodes`, whose %y is scattered.
std::string with(const std::string& nodes, const std::string& outputs = "") {
  return R"(program @ mesh(tp=2)
input %w: f32[8,8] {S(0)} = parameter "w"
input %v: f32[8,8] {S(0)} = parameter "v"
input %b: f32[8] {P(sum)} = parameter "b"
input %x: f32[4,8] {S(1)} = user
)" + nodes +
      R"(
  %z: f32[4,8] {S(0)} = reduce_scatter(%y, tp: {P(sum)} -> {S(0)})
output %z = user
)" + outputs;
}

TEST(ScatterProducers, WhatIsNoProductSaysWhatItIs) {
  expect_not_overlapped(
      with("  %m: f32[4,8] {P(sum)} = aten::mm(%x, %w)\n  %y: f32[4,8] {P(sum)} = aten::neg(%m)"),
      "%y is computed by aten::neg, not by a matmul");
  expect_not_overlapped(
      with("  %m: f32[4,8] {P(sum)} = aten::mm(%x, %w)\n  %y: f32[4,8] {P(sum)} = aten::add.Tensor(%m, %m, alpha=2)"),
      "%y is computed by aten::add.Tensor, not by a matmul");
  expect_not_overlapped(
      R"(program @ mesh(tp=2)
input %y: f32[4,8] {P(sum)} = user
  %z: f32[4,8] {S(0)} = reduce_scatter(%y, tp: {P(sum)} -> {S(0)})
output %z = user
)",
      "%y is an input, not a product");
}

TEST(ScatterProducers, AProductThatOthersNeedIsNotComputedTwice) {
  expect_not_overlapped(
      with("  %y: f32[4,8] {P(sum)} = aten::mm(%x, %w)\n  %n: f32[4,8] {P(sum)} = aten::neg(%y)", "output %n = user\n"),
      "%y is used by others too");
  expect_not_overlapped(
      with(
          "  %m: f32[4,8] {P(sum)} = aten::mm(%x, %w)\n  %n: f32[4,8] {P(sum)} = aten::neg(%m)\n"
          "  %y: f32[4,8] {P(sum)} = aten::clone(%m)",
          "output %n = user\n"),
      "%m is used by aten::neg too");
}

TEST(ScatterProducers, OneOfTheTermsHasABias) {
  expect_not_overlapped(
      with("  %m: f32[4,8] {P(sum)} = aten::addmm(%b, %x, %w)\n  %n: f32[4,8] {P(sum)} = aten::addmm(%b, %x, %v)\n"
           "  %y: f32[4,8] {P(sum)} = aten::add.Tensor(%m, %n)"),
      "more than one of the matmuls that are added up has a bias");
}

TEST(ScatterProducers, ACastOfATermIsNotOneOfTheSum) {
  expect_not_overlapped(
      R"(program
input %w: bf16[8,4] = user
input %x: bf16[6,8] = user
  %a: bf16[6,4] = aten::mm(%x, %w)
  %b: bf16[6,4] = aten::mm(%x, %w)
  %c: f32[6,4] = aten::_to_copy(%a, dtype=f32)
  %d: f32[6,4] = aten::_to_copy(%b, dtype=f32)
  %e: f32[6,4] = aten::add.Tensor(%c, %d)
  %r: f32[3,4] = _c10d_functional::reduce_scatter_tensor(%e, "sum", 2, "0")
  %z: f32[3,4] = _c10d_functional::wait_tensor(%r)
output %z = user
)",
      "%c is computed by aten::_to_copy, not by a matmul");
}

TEST(ScatterProducers, NothingIsComputedBehindAWriteThatMatters) {
  expect_not_overlapped(
      with("  %y: f32[4,8] {P(sum)} = aten::mm(%x, %w)\n  %w2: f32[8,8] {S(0)} = aten::relu_(%w)"),
      "%y: what it is computed of is written to before it is reduced");
}

} // namespace scatter_producers_test

} // namespace weft::graph
