#include "weft/styles/nearest.h"

#include <gtest/gtest.h>

namespace weft::nn {

namespace nearest_test {
using Names = std::vector<std::string>;

TEST(Nearest, GivesTheNamesThatDifferByTheFewestLettersFirst) {
  EXPECT_EQ(nearest("wq", {"wo", "norm", "wqk", "output"}), (Names{"wo", "wqk", "norm"}));
}

TEST(Nearest, LayersThatDifferByNumberAreOneName) {
  EXPECT_EQ(
      nearest("layers.*.attn.wq", {"layers.0.attention.wq", "layers.1.attention.wq", "layers.10.attention.wq"}),
      (Names{"layers.*.attention.wq"}));
  EXPECT_EQ(nearest("0", {"", "1"}), (Names{"*"}));
}

TEST(Nearest, NoNamesAreNoneNear) {
  EXPECT_TRUE(nearest("a", {}).empty());
}

} // namespace nearest_test

} // namespace weft::nn
