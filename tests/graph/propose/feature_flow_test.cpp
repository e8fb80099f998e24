#include "weft/graph/propose/feature_flow.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace feature_flow_test {
using Kind = FeaturePassage::Kind;

/// A rule of one input and one output whose dims are lists of factors.
Rule rule_of(std::vector<int64_t> sizes, Rule::Dims input, std::vector<Rule::Dims> outputs) {
  Rule rule;
  rule.sizes = std::move(sizes);
  rule.inputs = {std::move(input)};
  rule.outputs = std::move(outputs);
  return rule;
}

TEST(FeatureFlow, FollowsFeaturesThroughViewsToTheirHeads) {
  const auto features = FeatureDims::last({2, 5, 48});
  EXPECT_EQ(features.outermost_size(), 48);
  // [2, 5, 48] as [2, 5, 12, 4]
  const auto split = rule_of({2, 5, 12, 4}, {{0}, {1}, {2, 3}}, {{{0}, {1}, {2}, {3}}});
  const auto heads = pass_features(split, 0, features, /*is_view=*/true);
  ASSERT_EQ(heads.kind, Kind::Passes);
  EXPECT_EQ(heads.factor, 2);
  EXPECT_EQ(heads.outputs[0]->outermost_size(), 12);
  EXPECT_EQ(heads.outputs[0]->outermost(), 4);
  EXPECT_FALSE(heads.outputs[0]->leads_last_dim());
  // And back.
  const auto joined = rule_of({2, 5, 12, 4}, {{0}, {1}, {2}, {3}}, {{{0}, {1}, {2, 3}}});
  const auto back = pass_features(joined, 0, *heads.outputs[0], /*is_view=*/true);
  EXPECT_TRUE(back.outputs[0]->leads_last_dim());
  EXPECT_EQ(back.outputs[0]->outermost_size(), 12);
  // Joined with the batch in one dim, they are not the slowest varying stretch.
  const auto behind = rule_of({2, 5, 48}, {{0}, {1}, {2}}, {{{1}, {0, 2}}});
  EXPECT_FALSE(pass_features(behind, 0, features, /*is_view=*/true).outputs[0]->leads_last_dim());
}

TEST(FeatureFlow, WhatAViewLeavesOutAreParts) {
  const auto features = FeatureDims::last({5, 36});
  auto chunk = rule_of({5, 3, 12}, {{0}, {1, 2}}, {{{0}, {2}}, {{0}, {2}}, {{0}, {2}}});
  chunk.unsharded = {1};
  const auto parts = pass_features(chunk, 0, features, /*is_view=*/true);
  ASSERT_EQ(parts.kind, Kind::Passes);
  EXPECT_EQ(parts.outputs[2]->parts, 3);
  EXPECT_EQ(parts.outputs[2]->outermost_size(), 12);
  // A call that computes over them needs all of them.
  EXPECT_EQ(pass_features(chunk, 0, features, /*is_view=*/false).kind, Kind::Stopped);
  // Half of every head is left out: the heads stay.
  FeatureDims heads{.dims = {{{12, 4}}, {{4, 1}}}};
  auto halves = rule_of({12, 2, 2}, {{0}, {1, 2}}, {{{0}, {2}}, {{0}, {2}}});
  halves.unsharded = {1};
  const auto half = pass_features(halves, 0, heads, /*is_view=*/true);
  ASSERT_EQ(half.kind, Kind::Passes);
  EXPECT_EQ(half.outputs[0]->parts, 1);
  EXPECT_EQ(half.outputs[0]->outermost_size(), 12);
}

TEST(FeatureFlow, SumsAndUnshardedDimsEndIt) {
  const auto features = FeatureDims::last({5, 8});
  EXPECT_EQ(pass_features(rule_of({5, 8}, {{0}, {1}}, {{{0}}}), 0, features, false).kind, Kind::Reduced);
  auto softmax = rule_of({5, 8}, {{0}, {1}}, {{{0}, {1}}});
  softmax.unsharded = {1};
  EXPECT_EQ(pass_features(softmax, 0, features, false).kind, Kind::Stopped);
  EXPECT_EQ(pass_features(rule_of({5}, {{0}, {}}, {{{0}, {}}}), 0, features, false).kind, Kind::Stopped);
  // Sizes whose boundaries do not match: 8 features and factors of 3.
  EXPECT_EQ(pass_features(rule_of({5, 3}, {{0}, {1}}, {{{0}, {1}}}), 0, features, false).kind, Kind::Stopped);
}

TEST(FeatureFlow, AnOutputWithoutThemHasNone) {
  const auto features = FeatureDims::last({5, 8});
  const auto passage = pass_features(rule_of({5, 8}, {{0}, {1}}, {{{0}, {1}}, {{0}}}), 0, features, false);
  ASSERT_EQ(passage.kind, Kind::Passes);
  EXPECT_TRUE(passage.outputs[0]);
  EXPECT_FALSE(passage.outputs[1]);
}

} // namespace feature_flow_test

} // namespace weft::graph
