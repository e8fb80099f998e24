#include "weft/styles/plain_shards.h"

#include <gtest/gtest.h>

namespace weft::nn {

namespace plain_shards_test {

bool has_shards(const Style& style) {
  const int weight = 0;
  const ParallelPlan plan = {{"a", style}};
  return has_plain_shards(
      lay_out(plan, {{"a", ModuleKind::Linear, {{"weight", {8, 8}, &weight}}}}, DeviceMesh::parse("mesh(tp=2)"), 0)[0]);
}

TEST(PlainShards, AreLocalTensorsOfOtherPlacementsThanR) {
  EXPECT_FALSE(has_shards(colwise()));
  EXPECT_TRUE(has_shards(colwise({.local_output = true})));
  EXPECT_FALSE(has_shards(colwise({.output = Replicate(), .local_output = true})));
  EXPECT_FALSE(has_shards(rowwise({.local_output = true})));
  EXPECT_TRUE(has_shards(rowwise({.output = Shard(1), .local_output = true})));
  EXPECT_FALSE(has_plain_shards(ModuleLayout()));
}

TEST(PlainShards, MayBeInputs) {
  const Crossing to_shards{.from = Replicate(), .to = Shard(0)};
  EXPECT_FALSE(has_shards(prepare_input({to_shards})));
  EXPECT_TRUE(has_shards(prepare_input({to_shards}, /*local_inputs=*/true)));
  auto style = prepare_input({{.from = Shard(0), .to = Replicate()}}, /*local_inputs=*/true);
  EXPECT_FALSE(has_shards(style));
  style.keyword_inputs = {{"mask", to_shards}};
  EXPECT_TRUE(has_shards(style));
}

} // namespace plain_shards_test

} // namespace weft::nn
