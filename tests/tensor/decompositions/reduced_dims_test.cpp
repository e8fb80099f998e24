#include "weft/tensor/decompositions/reduced_dims.h"
#include "tests/support/rule_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace reduced_dims_test {
using namespace weft::testing;

std::vector<SpecPtr> spec(const std::string& placements) {
  return {TensorSpec::parse("f32[5,4] @ mesh(a=2,b=2) {" + placements + "}")};
}

TEST(ReducedDims, AreShardedIfAMeshDimShardsOneOfThem) {
  const RuleCall rows("aten::mean.dim", {{5, 4}}, {{"dim", Ints{0}}});
  EXPECT_TRUE(shards_reduced_dims(rows.call(), spec("S(0), R")));
  EXPECT_TRUE(shards_reduced_dims(rows.call(), spec("R, S(0)")));
  EXPECT_FALSE(shards_reduced_dims(rows.call(), spec("S(1), R")));
  EXPECT_FALSE(shards_reduced_dims(rows.call(), spec("P(sum), S(1)")));
  const RuleCall last("aten::mean.dim", {{5, 4}}, {{"dim", Ints{-1}}});
  EXPECT_TRUE(shards_reduced_dims(last.call(), spec("S(1), R")));
  EXPECT_FALSE(shards_reduced_dims(last.call(), spec("S(0), R")));
}

TEST(ReducedDims, AreAllWhereNoneIsNamed) {
  for (const auto& all :
       {RuleCall("aten::mean", {{5, 4}}), RuleCall("aten::mean.dim", {{5, 4}}, {{"dim", Ints{}}}),
        RuleCall("aten::linalg_vector_norm", {{5, 4}})}) {
    EXPECT_TRUE(shards_reduced_dims(all.call(), spec("S(1), R")));
    EXPECT_FALSE(shards_reduced_dims(all.call(), spec("R, R")));
  }
}

TEST(ReducedDims, APartialOperandCountsWhereItIsAsked) {
  const RuleCall rows("aten::mean.dim", {{5, 4}}, {{"dim", Ints{0}}});
  EXPECT_TRUE(shards_reduced_dims_or_is_partial(rows.call(), spec("P(sum), R")));
  EXPECT_TRUE(shards_reduced_dims_or_is_partial(rows.call(), spec("R, S(0)")));
  EXPECT_FALSE(shards_reduced_dims_or_is_partial(rows.call(), spec("R, S(1)")));
  EXPECT_FALSE(shards_reduced_dims(rows.call(), spec("P(sum), R")));
}

TEST(ReducedDims, AreCountedFromTheFront) {
  EXPECT_EQ(wrapped_dims(Ints{-1, 0}, 3), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(wrapped_dims(std::nullopt, 3), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(wrapped_dims(Ints{}, 2), (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(wrapped_dims(std::nullopt, 0).empty());
  EXPECT_THROW(wrapped_dims(Ints{3}, 3), c10::IndexError);
}

TEST(ReducedDims, OfEachResultManyElementsAreReduced) {
  const auto x = at::empty({5, 4, 3});
  EXPECT_EQ(reduced_count(x, {0, 2}), 15);
  EXPECT_EQ(reduced_count(x, {}), 1);
  EXPECT_EQ(reduced_count(at::empty({5, 0}), {1}), 0);
  EXPECT_EQ(reduced_count(at::empty({}), {0}), 1);
}

} // namespace reduced_dims_test

} // namespace weft
