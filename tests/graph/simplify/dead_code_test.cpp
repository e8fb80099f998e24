#include "weft/graph/simplify/dead_code.h"

#include "tests/support/program_text.h"

namespace weft::graph {

namespace dead_code_test {
using testing::expect_pass;
using testing::expect_unchanged;

TEST(DeadCode, ChainsThatNobodyUsesGo) {
  expect_pass(
      dead_code,
      R"(program
      input %x: f32[4] = user
        %a: f32[4] = aten::relu(%x)
        %n: int = aten::sym_size.int(%a, 0)
        %m: int = _operator.add(%n, 1)
        %b: f32[4] = aten::relu(%x)
        %c: f32[4] = aten::dropout(%b, 0.5, True)
        [%d: f32[2], %e: f32[2]] = aten::split.Tensor(%a, 2)
      output %b = user)",
      R"(program
      input %x: f32[4] = user
        %b: f32[4] = aten::relu(%x)
      output %b = user)");
}

TEST(DeadCode, RedistributionsThatNobodyUsesGo) {
  expect_pass(
      dead_code,
      R"(program @ mesh(tp=2)
      input %x: f32[4] {S(0)} = user
        %g: f32[4] {R} = all_gather(%x, tp: {S(0)} -> {R})
        %p: f32[4] {P(sum)} = make_partial(%g, tp: {R} -> {P(sum)})
      output %x = user)",
      R"(program @ mesh(tp=2)
      input %x: f32[4] {S(0)} = user
      output %x = user)");
}

TEST(DeadCode, ANodeStaysForOneOfItsOutputs) {
  expect_unchanged(
      dead_code,
      R"(program
      input %x: f32[4] = user
        [%d: f32[2], _] = aten::split.Tensor(%x, 2)
        %v: f32[2], %i: i64[2] = aten::topk(%x, 2)
      output %d = user
      output %i = user)");
}

TEST(DeadCode, WritesAndChecksStay) {
  expect_unchanged(
      dead_code,
      R"(program
      input %x: f32[4] = user
        %view: f32[2,2] = aten::view(%x, [2, 2])
        %add: f32[2,2] = aten::add_.Tensor(%view, 1)
        %n: int = aten::sym_size.int(%x, 0)
        %ge: bool = _operator.ge(%n, 2)
        aten::_assert_scalar(%ge, "at least 2")
        aten::sym_constrain_range_for_size(%n, min=2)
        aten::_assert_tensor_metadata(%x, dtype=f32)
      output %x = user)");
}

TEST(DeadCode, CollectivesOfARankStay) {
  // Another rank may use a result that this rank does not use, and would wait for this rank.
  expect_unchanged(
      dead_code,
      R"(program @ mesh(tp=2)
      input %x: f32[4] = user
        %start: f32[0] = _c10d_functional::all_to_all_single(%x, [0, 0], [2, 2], "tp")
        %wait: f32[0] = _c10d_functional::wait_tensor(%start)
      output %x = user)");
}

TEST(DeadCode, TakesLinearTime) {
  std::string text = "program\ninput %x: f32[4] = user\n";
  std::string last = "x";
  for (int i = 0; i < 50000; ++i) {
    const auto name = "a" + std::to_string(i);
    text += "%" + name + ": f32[4] = aten::relu(%" + last + ")\n";
    last = name;
  }
  expect_pass(dead_code, text + "output %x = user", "program\ninput %x: f32[4] = user\noutput %x = user");
}

} // namespace dead_code_test

} // namespace weft::graph
