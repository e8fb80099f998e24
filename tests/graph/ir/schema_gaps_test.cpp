#include "weft/graph/ir/schema_gaps.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace schema_gaps_test {
Program norm(const std::string& training) {
  return parse_program(
      "program\n"
      "input %x: f32[4,8] = user\n"
      "input %mean: f32[8] = buffer \"mean\"\n"
      "input %var: f32[8] = buffer \"var\"\n"
      "  %y: f32[4,8] = aten::batch_norm(%x, None, None, %mean, %var, " +
      training + ", 0.1, 1e-05, False)\noutput %y = user\n");
}

TEST(SchemaGaps, ABatchNormInTrainingWritesItsRunningStatistics) {
  EXPECT_EQ(silently_written_arguments(*norm("True").graph->first()), (std::vector<size_t>{3, 4}));
  EXPECT_TRUE(silently_written_arguments(*norm("False").graph->first()).empty());
}

TEST(SchemaGaps, ADropoutMayGiveBackWhatItIsGivenAndOthersViewsOfIt) {
  const auto op = [](const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); };
  for (const auto* name : {"aten::dropout", "aten::atleast_2d", "aten::broadcast_tensors", "aten::type_as"}) {
    EXPECT_TRUE(may_give_back_operand(op(name))) << name;
  }
  EXPECT_FALSE(may_give_back_operand(op("aten::relu")));
}

} // namespace schema_gaps_test

} // namespace weft::graph
