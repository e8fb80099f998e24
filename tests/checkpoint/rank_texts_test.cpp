#include "weft/checkpoint/rank_texts.h"

#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

namespace weft {

namespace rank_texts_test {

TEST(RankTexts, OfAnyLengthReachAllRanks) {
  run_on_ranks(3, [](int64_t rank) {
    const RankTexts texts(init_device_mesh("cpu", {3}, {"texts"}));
    const std::vector<std::string> all = {"", "b", std::string(100'000, 'c')};
    EXPECT_EQ(texts.rank(), rank);
    EXPECT_EQ(texts.all_gather(all[rank]), all);
    const auto gathered = texts.gather(all[rank]);
    EXPECT_EQ(gathered, rank == 0 ? all : std::vector{all[rank]});
    EXPECT_EQ(texts.broadcast(all[2 - rank]), all[2]);
    EXPECT_EQ(texts.broadcast(all[rank]), "");
  });
}

TEST(RankTexts, OfOneRankNeedNoMesh) {
  const RankTexts texts{DeviceMesh()};
  EXPECT_EQ(texts.size(), 1);
  EXPECT_EQ(texts.all_gather("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(texts.gather("a"), std::vector<std::string>{"a"});
  EXPECT_EQ(texts.broadcast("a"), "a");
}

} // namespace rank_texts_test

} // namespace weft
