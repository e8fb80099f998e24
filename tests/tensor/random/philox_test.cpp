#include "weft/tensor/random/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace weft {

namespace philox_test {
std::array<uint32_t, 4> words(uint64_t key, uint64_t low, uint64_t high) {
  const auto block = philox(key, low, high);
  return {block.words[0], block.words[1], block.words[2], block.words[3]};
}

TEST(Philox, GivesTheKnownAnswersOfItsPaper) {
  EXPECT_EQ(words(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr auto kOnes = ~uint64_t{0};
  EXPECT_EQ(words(kOnes, kOnes, kOnes), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      words(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
      (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryBitOfCounterAndKeyCounts) {
  std::set<std::array<uint32_t, 4>> seen;
  for (int bit = 0; bit < 64; ++bit) {
    seen.insert(words(uint64_t{1} << bit, 0, 0));
    seen.insert(words(0, uint64_t{1} << bit, 0));
    seen.insert(words(0, 0, uint64_t{1} << bit));
  }
  EXPECT_EQ(seen.size(), 3 * 64U);
}

} // namespace philox_test

} // namespace weft
