#include "weft/graph/exec/input_check.h"

#include "tests/support/error_text.h"
#include "tests/support/program_builder.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace input_check_test {

using namespace weft::testing;

const auto kBatch = Size::symbol("s0");

std::string refused(const Program& program, const std::vector<c10::IValue>& inputs) {
  return error_text([&] { InputCheck(program).check(inputs); });
}

std::shared_ptr<const Program> program_of_two() {
  ProgramBuilder build;
  build.input("x", at::kFloat, {kBatch, 8});
  build.input("mask", at::kBool, {kBatch, 8});
  build.program().symbols["s0"] = {std::nullopt, 4, 16};
  return build.finish();
}

TEST(InputCheck, TakesWhatTheProgramIsFor) {
  const auto program = program_of_two();
  for (const auto batch : {4, 9, 16}) {
    InputCheck(*program).check(std::vector<c10::IValue>{at::ones({batch, 8}), at::ones({batch, 8}, at::kBool)});
  }
}

TEST(InputCheck, CountsInputs) {
  EXPECT_EQ(refused(*program_of_two(), {at::ones({4, 8})}), "[Executor] 2 inputs are required (x, mask), but got 1.");
}

TEST(InputCheck, ChecksKindAndDtype) {
  const auto program = program_of_two();
  EXPECT_EQ(
      refused(*program, {at::ones({4, 8}), 3}), "[Executor] input 1 ('mask') must be a tensor bool[s0,8], but got 3.");
  EXPECT_EQ(
      refused(*program, {at::ones({4, 8}), at::ones({4, 8})}),
      "[Executor] input 1 ('mask') must be a tensor bool[s0,8], but got f32[4,8].");
  EXPECT_EQ(
      refused(*program, {at::Tensor(), at::ones({4, 8})}),
      "[Executor] input 0 ('x') must be a tensor f32[s0,8], but got an undefined tensor.");
  EXPECT_EQ(
      refused(*program, {at::ones({4, 8}, at::kMeta), at::ones({4, 8})}),
      "[Executor] input 0 ('x') must be a tensor f32[s0,8], but got f32[4,8] on meta.");
}

TEST(InputCheck, ChecksDimsAndSizes) {
  const auto program = program_of_two();
  const auto mask = at::ones({4, 8}, at::kBool);
  EXPECT_EQ(
      refused(*program, {at::ones({4, 8, 1}), mask}),
      "[Executor] input 0 ('x') must be f32[s0,8], but got f32[4,8,1]: it must have 2 dims.");
  EXPECT_EQ(
      refused(*program, {at::ones({4, 9}), mask}),
      "[Executor] input 0 ('x') must be f32[s0,8], but got f32[4,9]: dim 1 must be 8.");
  EXPECT_EQ(
      refused(*program, {at::ones({5, 8}), mask}),
      "[Executor] input 1 ('mask') must be bool[s0,8], but got bool[4,8]: dim 0 must be s0 = 5, as in input 0 ('x').");
}

TEST(InputCheck, ChecksRanges) {
  const auto program = program_of_two();
  EXPECT_EQ(
      refused(*program, {at::ones({3, 8}), at::ones({3, 8}, at::kBool)}),
      "[Executor] input 0 ('x') must be f32[s0,8] with s0 at least 4 and at most 16, but got f32[3,8]: s0 is 3.");
  EXPECT_EQ(
      refused(*program, {at::ones({17, 8}), at::ones({17, 8}, at::kBool)}),
      "[Executor] input 0 ('x') must be f32[s0,8] with s0 at least 4 and at most 16, but got f32[17,8]: s0 is 17.");
}

TEST(InputCheck, TakesSizesThatExportingSetsApart) {
  ProgramBuilder build;
  build.input("x", at::kFloat, {kBatch});
  build.program().symbols["s0"] = {std::nullopt, 2, std::nullopt};
  InputCheck(*build.finish()).check(std::vector<c10::IValue>{at::ones({1})});
}

TEST(InputCheck, ChecksWhatIsDerivedOfSymbols) {
  ProgramBuilder build;
  build.input("twice", at::kFloat, {Size::parse("2*s0 + 1")});
  build.input("x", at::kFloat, {kBatch});
  const auto program = build.finish();
  InputCheck(*program).check(std::vector<c10::IValue>{at::ones({7}), at::ones({3})});
  EXPECT_EQ(
      refused(*program, {at::ones({6}), at::ones({3})}),
      "[Executor] input 0 ('twice') must be f32[2*s0 + 1], but got f32[6]: dim 0 must be 2*s0 + 1 = 7 with s0 = 3.");
}

TEST(InputCheck, TellsASymbolFromWhatIsDerivedOfIt) {
  ProgramBuilder build;
  build.input("a", at::kFloat, {Size::parse("2*s0")});
  build.input("b", at::kFloat, {Size::parse("3*s0")});
  build.input("c", at::kFloat, {Size::parse("s1//2")});
  build.program().symbols["s0"] = {std::nullopt, std::nullopt, 4};
  const auto program = build.finish();
  InputCheck(*program).check(std::vector<c10::IValue>{at::ones({8}), at::ones({12}), at::ones({2})});
  EXPECT_EQ(
      refused(*program, {at::ones({7}), at::ones({9}), at::ones({2})}),
      "[Executor] input 0 ('a') must be f32[2*s0], but got f32[7]: dim 0 must be 2*s0 = 6 with s0 = 3.");
  EXPECT_EQ(
      refused(*program, {at::ones({8}), at::ones({9}), at::ones({2})}),
      "[Executor] input 1 ('b') must be f32[3*s0], but got f32[9]: dim 0 must be 3*s0 = 12 with s0 = 4.");
  EXPECT_EQ(
      refused(*program, {at::ones({10}), at::ones({15}), at::ones({2})}),
      "[Executor] input 0 ('a') must be f32[2*s0] with s0 at most 4, but got f32[10]: s0 is 5.");
}

TEST(InputCheck, ChecksNumbersAndConstants) {
  ProgramBuilder build;
  build.number("n", NumberKind::Int, "s0");
  build.number("p", NumberKind::Float);
  build.number("flag", NumberKind::Bool);
  build.constant_input("mode", "exact");
  build.constant_input("", {});
  build.input("x", at::kFloat, {kBatch});
  const auto program = build.finish();
  const auto x = at::ones({3});
  InputCheck(*program).check(std::vector<c10::IValue>{3, 0.5, true, "exact", {}, x});
  EXPECT_EQ(
      refused(*program, {0.5, 0.5, true, "exact", {}, x}), "[Executor] input 0 ('n') must be an int s0, but got 0.5.");
  EXPECT_EQ(refused(*program, {3, 1, true, "exact", {}, x}), "[Executor] input 1 ('p') must be a float, but got 1.");
  EXPECT_EQ(
      refused(*program, {3, 0.5, x, "exact", {}, x}), "[Executor] input 2 ('flag') must be a bool, but got f32[3].");
  EXPECT_EQ(
      refused(*program, {3, 0.5, true, "fast", {}, x}),
      "[Executor] input 3 ('mode') must be exact, which the program was made for, but got fast.");
  EXPECT_EQ(
      refused(*program, {3, 0.5, true, "exact", x, x}),
      "[Executor] input 4 must be None, which the program was made for, but got f32[3].");
  EXPECT_EQ(
      refused(*program, {4, 0.5, true, "exact", {}, x}),
      "[Executor] input 5 ('x') must be f32[s0], but got f32[3]: dim 0 must be s0 = 4, as in input 0 ('n').");
}

} // namespace input_check_test

} // namespace weft::graph
