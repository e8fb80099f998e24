#include "weft/propagation/operator_traits.h"

#include <gtest/gtest.h>

namespace weft {

namespace operator_traits_test {
c10::OperatorHandle op_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

TEST(OperatorTraits, KnowTheSchemaTheRuleAndTheDecomposition) {
  const OperatorTraits add(op_of("aten::add_", "Tensor"));
  EXPECT_EQ(add.schema.written, std::vector<int64_t>{0});
  EXPECT_NE(add.rule, nullptr);
  EXPECT_EQ(add.decomposition, nullptr);
  const OperatorTraits mean(op_of("aten::mean", "dim"));
  EXPECT_NE(mean.decomposition, nullptr);
  EXPECT_EQ(OperatorTraits(op_of("aten::put_")).rule, nullptr);
}

} // namespace operator_traits_test

} // namespace weft
