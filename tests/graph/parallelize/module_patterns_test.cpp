#include "weft/graph/parallelize/module_patterns.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace module_patterns_test {
const std::vector<std::string> kPaths = {
    "",         "layers.0",       "layers.0.mlp.0", "layers.0.mlp.1", "layers.0.mlp.3",
    "layers.1", "layers.1.mlp.0", "layers.1.mlp.1", "layers.1.mlp.3", "head2",
    "head"};

std::string widened_among(const std::string& path, std::vector<std::string> same) {
  return widened(
      path, kPaths, [&](const std::string& other) { return std::find(same.begin(), same.end(), other) != same.end(); });
}

TEST(ModulePatterns, NumbersBecomeStarsWhereAllThatMatchIsAlike) {
  EXPECT_EQ(widened_among("layers.0.mlp.0", {"layers.0.mlp.0", "layers.1.mlp.0"}), "layers.*.mlp.0");
  EXPECT_EQ(widened_among("layers.1", {"layers.0", "layers.1"}), "layers.*");
}

TEST(ModulePatterns, OthersStayAsTheyAre) {
  EXPECT_EQ(widened_among("layers.0.mlp.0", {"layers.0.mlp.0"}), "layers.0.mlp.0");
  EXPECT_EQ(widened_among("head2", {"head2", "head"}), "head2");
  EXPECT_EQ(widened_among("", {}), "");
}

} // namespace module_patterns_test

} // namespace weft::graph
