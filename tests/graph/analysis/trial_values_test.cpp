#include "weft/graph/analysis/trial_values.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace trial_values_test {
TEST(TrialValues, SymbolsAreDistinctPrimesInsideTheirRanges) {
  Program program;
  program.symbols["s0"] = {.hint = 4, .min = 2, .max = std::nullopt};
  program.symbols["s1"] = {.hint = 4, .min = 2, .max = std::nullopt};
  program.symbols["s2"] = {.hint = 8, .min = 2, .max = 64};
  program.symbols["s3"] = {.hint = 4, .min = 4, .max = 4};
  const TrialValues values(program);
  EXPECT_EQ(values.of(Size::symbol("s0")), 10007);
  EXPECT_EQ(values.of(Size::symbol("s1")), 10009);
  EXPECT_EQ(values.of(Size::symbol("s2")), 61);
  EXPECT_EQ(values.of(Size::symbol("s3")), 4);
  EXPECT_EQ(values.of(Sizes{2, Size::symbol("s0") * Size(3)}), (std::vector<int64_t>{2, 30021}));
}

TEST(TrialValues, NumbersFollowTheNodesThatComputeThem) {
  const auto program = parse_program(R"(
program
symbol s0 = 4 in [2, 1024]
input %x: f32[s0,8] = user
  %sym_size: int(s0) = aten::sym_size.int(%x, 0)
  %floordiv: int = _operator.floordiv(%sym_size, 2)
  %view: f32[s0//2,16] = aten::view(%x, [%floordiv, 16])
output %view = user
)");
  TrialValues values(program);
  auto* size = program.graph->first();
  EXPECT_TRUE(is_size_query(*size));
  values.add(*size);
  values.add(*size->next());
  EXPECT_FALSE(is_size_query(*size->next()));
  const auto prime = values.of(Size::symbol("s0"));
  EXPECT_EQ(values.of(size->output()).toInt(), prime);
  EXPECT_EQ(values.of(size->next()->output()).toInt(), prime / 2);
}

} // namespace trial_values_test

} // namespace weft::graph
