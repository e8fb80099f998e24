#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace embedding_test {
using namespace weft::testing;

TEST(Embedding, RowsAreLookedUpAndColumnsPass) {
  EXPECT_EQ(
      rule_text("aten::embedding", {{7, 4}, {2, 5}}), "([a,b],[c,d])->([c,d,b]) sum={a} linear*={0} lookup={1 in a}");
}

TEST(Embedding, BackwardAddsUpByRow) {
  EXPECT_EQ(
      rule_text(
          "aten::embedding_dense_backward", {{5, 4}, {5}},
          {{"num_weights", 7}, {"padding_idx", -1}, {"scale_grad_by_freq", false}}),
      "([a,b],[a])->([c,b]) sum={a} filled={c} linear={0} num_weights=[c] lookup={1 in c}");
}

TEST(Embedding, APaddingRowIsKnownWhereAllRowsAre) {
  EXPECT_EQ(
      rule_text(
          "aten::embedding_dense_backward", {{5, 4}, {5}},
          {{"num_weights", 7}, {"padding_idx", 2}, {"scale_grad_by_freq", false}}),
      "([a,b],[a])->([c,b]) sum={a} unsharded={c} linear={0} num_weights=[c]");
}

TEST(Embedding, FrequenciesAreCountedOverAllPositions) {
  EXPECT_EQ(
      rule_text(
          "aten::embedding_dense_backward", {{5, 4}, {5}},
          {{"num_weights", 7}, {"padding_idx", -1}, {"scale_grad_by_freq", true}}),
      "([a,b],[a])->([c,b]) unsharded={a} filled={c} linear={0} num_weights=[c] lookup={1 in c}");
}

TEST(Embedding, BagsPassColumnsAlone) {
  EXPECT_EQ(
      rule_text("aten::embedding_bag", {{7, 4}, {6}, {3}}),
      "([-,a],[-],[-])->([-,a],[-],[-],[-]) filled={a} linear={0} constant={1,2,3}");
  EXPECT_EQ(
      rule_text("aten::embedding_bag", {{7, 4}, {6}, {3}}, {{"mode", 2}}),
      "([-,a],[-],[-])->([-,a],[-],[-],[-,a]) filled={a} constant={1,2}");
}

} // namespace embedding_test

} // namespace weft
