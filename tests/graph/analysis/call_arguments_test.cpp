#include "weft/graph/analysis/call_arguments.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace call_arguments_test {
TEST(CallArguments, AreFoundByNameWhereverTheyStand) {
  const auto program = parse_program(R"(program
      symbol s0 = 3 in [2, 64]
      input %x: f32[s0,8] = user
        %n: int(s0) = aten::sym_size.int(%x, 0)
        %s: f32[s0,8] = aten::slice.Tensor(%x, end=%n)
        %c: f32[s0,16] = aten::cat([%x, %s], dim=1)
        %p: f32[8,s0|1,8] = aten::permute(%x, [1, 0])
        %r: f32[s0,8] = _c10d_functional::all_reduce(%x, "sum", "tp")
      output %c = user)");
  const auto* size = program.graph->first();
  const CallArguments slice(*size->next());
  const auto* x = program.graph->inputs()[0];
  EXPECT_EQ(slice.tensor("self"), x);
  EXPECT_EQ(slice.integer("dim"), 0);
  EXPECT_EQ(slice.integer("step"), 1);
  EXPECT_EQ(slice.integer("end"), std::nullopt);
  EXPECT_EQ(slice.size("end"), Size::symbol("s0"));
  EXPECT_EQ(slice.size("step"), Size(1));
  EXPECT_TRUE(slice.has("end"));
  EXPECT_FALSE(slice.has("start"));
  EXPECT_FALSE(slice.has("absent"));
  EXPECT_EQ(slice.tensor("absent"), nullptr);
  EXPECT_EQ(slice.tensor("end"), nullptr);
  const CallArguments cat(*size->next()->next());
  EXPECT_EQ(cat.tensors("tensors"), (std::vector<Value*>{program.graph->inputs()[0], size->next()->output()}));
  EXPECT_EQ(cat.integer("dim"), 1);
  EXPECT_EQ(cat.tensors("dim"), std::vector<Value*>());
  EXPECT_EQ(cat.tensors("absent"), std::vector<Value*>());
  const CallArguments permute(*size->next()->next()->next());
  EXPECT_EQ(permute.integers("dims"), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(permute.integers("self"), std::nullopt);
  const CallArguments reduce(*size->next()->next()->next()->next());
  EXPECT_EQ(reduce.text("group_name"), "tp");
  EXPECT_EQ(reduce.text("input"), std::nullopt);
}

} // namespace call_arguments_test

} // namespace weft::graph
