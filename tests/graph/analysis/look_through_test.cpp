#include "weft/graph/analysis/look_through.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace look_through_test {
/// The first node of a program with these nodes followed by a return.
struct OneNode {
  explicit OneNode(const std::string& nodes, const std::string& mesh = "")
      : program(parse_program(
            "program" + mesh + "\ninput %x: f32[2,3,4]" + (mesh.empty() ? "" : " {S(1)}") + " = user\n  " + nodes +
            "\noutput %y = user\n")),
        node(*program.graph->first()) {}

  Program program;
  const Node& node;
};

TEST(LookThrough, ViewsThatKeepTheLastDimKeepTheRows) {
  EXPECT_TRUE(keeps_rows(OneNode("%y: f32[6,4] = aten::view(%x, [6, 4])").node));
  EXPECT_TRUE(keeps_rows(OneNode("%y: f32[3,2,4] = aten::reshape(%x, [3, 2, 4])").node));
  EXPECT_TRUE(keeps_rows(OneNode("%y: f32[1,2,3,4] = aten::unsqueeze(%x, 0)").node));
  EXPECT_TRUE(keeps_rows(OneNode("%y: f32[2,3,4] = aten::clone(%x)").node));
  EXPECT_FALSE(keeps_rows(OneNode("%y: f32[2,12] = aten::view(%x, [2, 12])").node));
  EXPECT_FALSE(keeps_rows(OneNode("%y: f32[2,3,4] = aten::relu(%x)").node));
}

TEST(LookThrough, AViewThatShardsTheLastDimInAnotherWayDoesNot) {
  EXPECT_TRUE(keeps_rows(OneNode("%y: f32[2,3,4] {S(1)} = aten::clone(%x)", " @ mesh(tp=2)").node));
  EXPECT_FALSE(keeps_rows(OneNode("%y: f32[6,4] {S(1)} = aten::view(%x, [6, 4])", " @ mesh(tp=2)").node));
}

TEST(LookThrough, CastsChangeTheDtypeAlone) {
  EXPECT_TRUE(is_cast(OneNode("%y: bf16[2,3,4] = aten::_to_copy(%x, dtype=bf16)").node));
  EXPECT_TRUE(is_cast(OneNode("%y: bf16[2,3,4] = aten::to.dtype(%x, bf16)").node));
  EXPECT_FALSE(is_cast(OneNode("%y: f32[2,3,4] = aten::neg(%x)").node));
}

TEST(LookThrough, PermutationsSayWhichDimIsWhere) {
  using Dims = std::vector<int64_t>;
  EXPECT_EQ(permutation_of(OneNode("%y: f32[2,4,3|12,1,4] = aten::transpose.int(%x, -1, 1)").node), (Dims{0, 2, 1}));
  EXPECT_EQ(permutation_of(OneNode("%y: f32[4,2,3|1,12,4] = aten::permute(%x, [-1, 0, 1])").node), (Dims{2, 0, 1}));
  EXPECT_EQ(permutation_of(OneNode("%y: f32[2,3,4] = aten::neg(%x)").node), std::nullopt);
}

} // namespace look_through_test

} // namespace weft::graph
