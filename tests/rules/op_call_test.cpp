#include "weft/rules/op_call.h"

#include "tests/support/error_text.h"
#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace op_call_test {
using namespace weft::testing;

TEST(OpCall, OperandsAreNumberedInTheOrderOfTheArguments) {
  const RuleCall linear("aten::linear", {{2, 4}, {3, 4}, {3}});
  EXPECT_EQ(linear.call().operand_of("input"), 0);
  EXPECT_EQ(linear.call().operand_of("weight"), 1);
  EXPECT_EQ(linear.call().operand_of("bias"), 2);
  EXPECT_EQ(linear.call().operand(1).sizes, c10::IntArrayRef({3, 4}));
  EXPECT_EQ(linear.call().operand(2).dim(), 1);
}

TEST(OpCall, AnAbsentTensorIsNoOperand) {
  const RuleCall linear("aten::linear", {{2, 4}, {3, 4}});
  EXPECT_EQ(linear.call().operands().size(), 2);
  EXPECT_EQ(linear.call().operand_of("bias"), std::nullopt);
  EXPECT_EQ(linear.call().operand_of("no_such_argument"), std::nullopt);
  EXPECT_FALSE(linear.call().has("bias"));
}

TEST(OpCall, ATensorListIsARangeOfOperands) {
  const RuleCall cat("aten::cat", {{2, 3}, {4, 3}, {1, 3}}, {{"dim", 0}});
  const auto range = cat.call().operands_of("tensors");
  EXPECT_EQ(range.begin, 0);
  EXPECT_EQ(range.count, 3);
  EXPECT_EQ(cat.call().operands_of("dim").count, 0);
}

TEST(OpCall, WhatIsNotThereHasTheDefaultThatIsAskedFor) {
  const RuleCall sum("aten::sum.dim_IntList", {{5, 4}}, {{"dim", Ints{1}}});
  EXPECT_EQ(sum.call().integer("no_such_argument", 7), 7);
  EXPECT_EQ(sum.call().number("no_such_argument", 0.5), 0.5);
  EXPECT_TRUE(sum.call().boolean("no_such_argument", true));
  EXPECT_FALSE(sum.call().boolean("keepdim", true)); // the schema's own default
  EXPECT_FALSE(sum.call().has("dtype"));
  EXPECT_TRUE(sum.call().has("dim"));
  EXPECT_EQ(sum.call().text("no_such_argument"), "");
}

TEST(OpCall, NumbersAndTextAreReadAsGiven) {
  const RuleCall add("aten::add.Tensor", {{4}, {4}}, {{"alpha", 2.5}});
  EXPECT_EQ(add.call().number("alpha"), 2.5);
  const RuleCall gelu("aten::gelu", {{4}}, {{"approximate", "tanh"}});
  EXPECT_EQ(gelu.call().text("approximate"), "tanh");
}

TEST(OpCall, IntegersAreThoseOfAListOrASingleOne) {
  const RuleCall permute("aten::permute", {{2, 3}}, {{"dims", Ints{1, -2}}});
  EXPECT_EQ(permute.call().integers("dims"), Ints({1, -2}));
  const RuleCall select("aten::select.int", {{2, 3}}, {{"dim", -1}, {"index", 2}});
  EXPECT_EQ(select.call().integers("dim"), Ints({-1}));
  EXPECT_EQ(select.call().integers("no_such_argument"), Ints());
}

TEST(OpCall, ADtypeIsReadAsGiven) {
  const RuleCall sum("aten::sum", {{5, 4}}, {{"dtype", static_cast<int64_t>(at::kDouble)}});
  EXPECT_EQ(sum.call().dtype("dtype", at::kFloat), at::kDouble);
  EXPECT_EQ(RuleCall("aten::sum", {{5, 4}}).call().dtype("dtype", at::kFloat), at::kFloat);
}

TEST(OpCall, AListOfOptionalTensorsSaysWhichItHolds) {
  const RuleCall index("aten::index.Tensor", {{5, 4, 3}, kAbsent, {2}});
  EXPECT_EQ(index.call().present("indices"), Ints({1}));
  EXPECT_EQ(index.call().operands_of("indices").begin, 1);
  EXPECT_EQ(index.call().operands_of("indices").count, 1);
  EXPECT_EQ(index.call().present("no_such_argument"), Ints());
}

TEST(OpCall, OtherTensorsMayTakeThePlaceOfItsOwn) {
  const RuleCall select("aten::select.int", {{2, 3}}, {{"dim", 1}, {"index", 2}});
  const std::vector<Operand> others = {{{7, 8, 9}, at::kFloat}};
  const auto call = select.call();
  const auto other = call.with(others);
  EXPECT_EQ(other.operand(0).dim(), 3);
  EXPECT_EQ(other.integer("index"), 2);
}

TEST(OpCall, DimsAreCountedFromTheFront) {
  const RuleCall select("aten::select.int", {{2, 3, 4}}, {{"dim", -1}, {"index", 0}});
  EXPECT_EQ(select.call().wrapped_dim("dim", 3), 2);
  EXPECT_EQ(select.call().wrapped_dim("dim", 2), 1);
  const RuleCall sum("aten::sum.dim_IntList", {{2, 3, 4}}, {{"dim", Ints{-1, 0}}});
  EXPECT_EQ(sum.call().reduced_dims("dim", 3), Ints({2, 0}));
}

TEST(OpCall, AReductionOfNoNamedDimIsOneOfAll) {
  const RuleCall none("aten::sum", {{2, 3, 4}});
  EXPECT_EQ(none.call().reduced_dims("dim", 3), Ints({0, 1, 2}));
  const RuleCall empty("aten::sum.dim_IntList", {{2, 3}}, {{"dim", Ints{}}});
  EXPECT_EQ(empty.call().reduced_dims("dim", 2), Ints({0, 1}));
}

TEST(OpCall, ADimThatATensorDoesNotHaveRaises) {
  const RuleCall select("aten::select.int", {{2, 3}}, {{"dim", 2}, {"index", 0}});
  expect_contains(
      error_text<c10::IndexError>([&] { select.call().wrapped_dim("dim", 2); }),
      "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
}

TEST(OpCall, TruthValuesAreThoseOfAList) {
  const RuleCall backward(
      "aten::convolution_backward", {{2, 6, 3}, {2, 4, 5}, {6, 4, 3}},
      {{"output_mask", c10::List<bool>({true, false, true})}});
  EXPECT_EQ(backward.call().booleans("output_mask"), std::vector<bool>({true, false, true}));
  EXPECT_TRUE(backward.call().booleans("no_such_argument").empty());
}

} // namespace op_call_test

} // namespace weft
