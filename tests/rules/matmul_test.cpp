#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace matmul_test {
using namespace weft::testing;

TEST(Matmul, ProductsReduceTheDimTheyContract) {
  EXPECT_EQ(rule_text("aten::mm", {{5, 4}, {4, 3}}), "([a,b],[b,c])->([a,c]) sum={b} linear={0}{1}");
  EXPECT_EQ(rule_text("aten::bmm", {{2, 5, 4}, {2, 4, 3}}), "([a,b,c],[a,c,d])->([a,b,d]) sum={c} linear={0}{1}");
  EXPECT_EQ(rule_text("aten::mv", {{5, 4}, {4}}), "([a,b],[b])->([a]) sum={b} linear={0}{1}");
  EXPECT_EQ(rule_text("aten::dot", {{4}, {4}}), "([a],[a])->([]) sum={a} linear={0}{1}");
}

TEST(Matmul, WhatIsAddedToAProductIsPartialWithIt) {
  EXPECT_EQ(
      rule_text("aten::addmm", {{3}, {5, 4}, {4, 3}}),
      "([c],[a,b],[b,c])->([a,c]) sum={b} added={0} linear={0,1}{0,2}");
  EXPECT_EQ(
      rule_text("aten::baddbmm", {{2, 5, 3}, {2, 5, 4}, {2, 4, 3}}),
      "([a,b,d],[a,b,c],[a,c,d])->([a,b,d]) sum={c} added={0} linear={0,1}{0,2}");
  EXPECT_EQ(rule_text("aten::addmv", {{5}, {5, 4}, {4}}), "([a],[a,b],[b])->([a]) sum={b} added={0} linear={0,1}{0,2}");
}

TEST(Matmul, ASumOverBatchesReducesThem) {
  EXPECT_EQ(
      rule_text("aten::addbmm", {{5, 3}, {2, 5, 4}, {2, 4, 3}}),
      "([b,d],[a,b,c],[a,c,d])->([b,d]) sum={a,c} added={0} linear={0,1}{0,2}");
}

TEST(Matmul, AnOuterProductReducesNothing) {
  EXPECT_EQ(rule_text("aten::addr", {{5, 4}, {5}, {4}}), "([a,b],[a],[b])->([a,b]) added={0} linear={0,1}{0,2}");
}

TEST(Matmul, AnActivationNeedsTheSum) {
  EXPECT_EQ(rule_text("aten::_addmm_activation", {{3}, {5, 4}, {4, 3}}), "([c],[a,b],[b,c])->([a,c]) unsharded={b}");
}

TEST(Matmul, ACrossProductNeedsItsThreeComponents) {
  EXPECT_EQ(rule_text("aten::linalg_cross", {{5, 3}, {1, 3}}), "([a,b],[-,b])->([a,b]) unsharded={b} linear={0}{1}");
}

TEST(Matmul, WhatIsAddedBroadcasts) {
  EXPECT_EQ(mapping_text("aten::addmm", {{5, 1}, {5, 4}, {4, 3}}), "([a,-],[a,b],[b,c])->([a,c])");
}

TEST(Matmul, LinearTakesTheWeightTransposed) {
  EXPECT_EQ(rule_text("aten::linear", {{2, 5, 4}, {3, 4}}), "([a,b,c],[d,c])->([a,b,d]) sum={c} linear={0}{1}");
  EXPECT_EQ(
      rule_text("aten::linear", {{2, 5, 4}, {3, 4}, {3}}),
      "([a,b,c],[d,c],[d])->([a,b,d]) sum={c} added={2} linear={0,2}{1,2}");
}

TEST(Matmul, LinearTakesVectors) {
  EXPECT_EQ(
      rule_text("aten::linear", {{4}, {3, 4}, {3}}), "([a],[b,a],[b])->([b]) sum={a} added={2} linear={0,2}{1,2}");
  EXPECT_EQ(rule_text("aten::linear", {{5, 4}, {4}}), "([a,b],[b])->([a]) sum={b} linear={0}{1}");
  EXPECT_EQ(rule_text("aten::linear", {{4}, {4}}), "([a],[a])->([]) sum={a} linear={0}{1}");
}

TEST(Matmul, ABiasBroadcasts) {
  EXPECT_EQ(mapping_text("aten::linear", {{2, 5, 4}, {3, 4}, {1}}), "([a,b,c],[d,c],[-])->([a,b,d])");
  EXPECT_EQ(mapping_text("aten::linear", {{2, 5, 4}, {3, 4}, {5, 3}}), "([a,b,c],[d,c],[b,d])->([a,b,d])");
}

TEST(Matmul, BatchDimsBroadcast) {
  EXPECT_EQ(
      rule_text("aten::matmul", {{2, 1, 5, 4}, {3, 4, 6}}), "([a,-,c,d],[b,d,e])->([a,b,c,e]) sum={d} linear={0}{1}");
  EXPECT_EQ(rule_text("aten::matmul", {{5, 4}, {4, 3}}), "([a,b],[b,c])->([a,c]) sum={b} linear={0}{1}");
}

TEST(Matmul, AVectorHasNoOuterDim) {
  EXPECT_EQ(mapping_text("aten::matmul", {{5, 4}, {4}}), "([a,b],[b])->([a])");
  EXPECT_EQ(mapping_text("aten::matmul", {{4}, {4, 3}}), "([b],[b,c])->([c])");
  EXPECT_EQ(mapping_text("aten::matmul", {{4}, {4}}), "([b],[b])->([])");
}

TEST(Matmul, ScalesInListsFollowTheirRecipes) {
  const auto text = [](const std::vector<Ints>& shapes, const Ints& recipe, const Ints& swizzle,
                       const Ints& contracted) {
    return mapping_text(
        "aten::_scaled_mm_v2", shapes,
        {{"recipe_a", recipe},
         {"recipe_b", recipe},
         {"swizzle_a", Ints{}},
         {"swizzle_b", swizzle},
         {"contraction_dim", contracted}});
  };
  const std::vector<Ints> of_tensors = {{6, 32}, {32, 48}, {}, {}};
  const std::vector<Ints> of_lines = {{6, 32}, {32, 48}, {6, 1}, {1, 48}};
  EXPECT_EQ(text(of_tensors, {0}, {}, {}), "([a,(b c)],[(b c),(d e)],[],[])->([a,(d e)])");
  EXPECT_EQ(text(of_lines, {1}, {0}, {}), "([a,(b c)],[(b c),(d e)],[a,-],[-,(d e)])->([a,(d e)])");
  const std::vector<Ints> of_blocks = {{6, 32}, {32, 48}, {6, 1}, {1, 48}};
  EXPECT_EQ(text(of_blocks, {3}, {}, {}), "none");
  EXPECT_EQ(text(of_lines, {1}, {1}, {}), "none");
  EXPECT_EQ(text(of_lines, {1}, {}, {1, 0}), "none");
}

} // namespace matmul_test

} // namespace weft
