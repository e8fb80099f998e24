#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace splitting_test {
using namespace weft::testing;

TEST(Splitting, EveryChunkHasTheOtherDims) {
  EXPECT_EQ(
      rule_text("aten::split.Tensor", {{5, 4}}, {{"split_size", 2}, {"dim", 0}}),
      "([a,b])->([-,b],[-,b],[-,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::split.sizes", {{5, 4}}, {{"split_size", Ints{2, 3}}, {"dim", 0}}),
      "([a,b])->([-,b],[-,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::split_with_sizes", {{5, 4}}, {{"split_sizes", Ints{1, 3}}, {"dim", 1}}),
      "([a,b])->([a,-],[a,-]) unsharded={b} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::tensor_split.indices", {{5, 4}}, {{"indices", Ints{1, 3}}, {"dim", 0}}),
      "([a,b])->([-,b],[-,b],[-,b]) unsharded={a} linear*={0}");
}

TEST(Splitting, EqualChunksMayBeSharded) {
  EXPECT_EQ(
      rule_text("aten::split.Tensor", {{5, 12}}, {{"split_size", 4}, {"dim", 1}}),
      "([a,(c b)])->([a,b],[a,b],[a,b]) unsharded={c} filled={b} linear*={0} split_size=[b]");
  const std::string in_three = "([a,(c b)])->([a,b],[a,b],[a,b]) unsharded={c} filled={b} linear*={0}";
  EXPECT_EQ(rule_text("aten::chunk", {{5, 12}}, {{"chunks", 3}, {"dim", -1}}), in_three);
  EXPECT_EQ(rule_text("aten::tensor_split.sections", {{5, 12}}, {{"sections", 3}, {"dim", 1}}), in_three);
}

TEST(Splitting, ThereMayBeFewerChunksThanAskedFor) {
  EXPECT_EQ(
      rule_text("aten::chunk", {{6, 4}}, {{"chunks", 4}}), "([a,b])->([-,b],[-,b],[-,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::tensor_split.sections", {{6, 4}}, {{"sections", 4}}),
      "([a,b])->([-,b],[-,b],[-,b],[-,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(rule_text("aten::chunk", {{0, 4}}, {{"chunks", 2}}), "([a,b])->([-,b],[-,b]) unsharded={a} linear*={0}");
}

TEST(Splitting, WhatATensorSaysIsNotKnown) {
  EXPECT_EQ(rule_text("aten::tensor_split.tensor_indices_or_sections", {{6, 4}, {}}), "none");
}

TEST(Splitting, ASingleNumberHasNoChunks) {
  EXPECT_EQ(rule_text("aten::chunk", {{}}, {{"chunks", 2}}), "none");
  EXPECT_EQ(rule_text("aten::split.Tensor", {{}}, {{"split_size", 2}}), "none");
}

} // namespace splitting_test

} // namespace weft
