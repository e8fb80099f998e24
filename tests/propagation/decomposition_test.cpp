#include "weft/propagation/decomposition.h"

#include <gtest/gtest.h>

namespace weft {

namespace decomposition_test {
TEST(Decomposition, IsFoundByItsFullName) {
  EXPECT_NE(find_decomposition("aten::mean.dim"), nullptr);
  EXPECT_NE(find_decomposition("aten::linalg_vector_norm"), nullptr);
  EXPECT_NE(find_decomposition("aten::nll_loss_forward"), nullptr);
  EXPECT_NE(find_decomposition("aten::equal"), nullptr);
  EXPECT_EQ(find_decomposition("aten::mean.out"), nullptr);
  EXPECT_EQ(find_decomposition("aten::add.Tensor"), nullptr);
}

} // namespace decomposition_test

} // namespace weft
