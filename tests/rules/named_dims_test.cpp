#include "weft/rules/named_dims.h"

#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace named_dims_test {
using namespace weft::testing;

TEST(NamedDims, OperandsThatAreNotNamedCannotBeSharded) {
  const RuleCall linear("aten::linear", {{2, 4}, {3, 4}, {3}});
  const auto dims = dims_by_name(linear.call(), {{"input", {{0}, {1}}}, {"bias", {{2}}}});
  ASSERT_EQ(dims.size(), 3);
  EXPECT_EQ(dims[0], Rule::Dims({{0}, {1}}));
  EXPECT_EQ(dims[1], Rule::Dims(2));
  EXPECT_EQ(dims[2], Rule::Dims({{2}}));
}

TEST(NamedDims, AbsentArgumentsAreLeftOut) {
  const RuleCall linear("aten::linear", {{2, 4}, {3, 4}});
  EXPECT_EQ(dims_by_name(linear.call(), {{"bias", {{2}}}}).size(), 2);
  EXPECT_EQ(operands_by_name(linear.call(), {"weight", "bias", "no_such_argument"}), Ints({1}));
}

} // namespace named_dims_test

} // namespace weft
