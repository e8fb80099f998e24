#include "weft/propagation/alias_set.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace weft {

namespace alias_set_test {
TEST(AliasSet, IsThatOfATensorOrOfTheTensorsInAList) {
  const auto schema_of = [](const char* name, const char* overload) -> const c10::FunctionSchema& {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).schema();
  };
  const auto& split = schema_of("aten::split", "Tensor");
  EXPECT_EQ(alias_of(split.arguments()[0])->beforeSets(), alias_of(split.returns()[0])->beforeSets());
  EXPECT_TRUE(alias_of(schema_of("aten::_foreach_add_", "Scalar").arguments()[0])->isWrite());
  EXPECT_EQ(alias_of(split.arguments()[1]), nullptr);
}

} // namespace alias_set_test

} // namespace weft
