#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define WEFT_HOST_DEVICE __host__ __device__
#else
#define WEFT_HOST_DEVICE
#endif

namespace weft {

/// Philox4x32-10: a bijection of 128-bit counters under a 64-bit key, whose values pass for random numbers. It has no
/// state, so that any rank can ask for the numbers of any element. (Salmon et al., "Parallel random numbers: as easy as
/// 1, 2, 3", 2011.)
struct PhiloxBlock {
  uint32_t words[4];
};

/// The constants of a round: two multipliers, and the increments of the key's halves.
constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53;
constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9;
constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85;
constexpr int kPhiloxRounds = 10;

/// One round on the counter (a, b, c, d) in place.
WEFT_HOST_DEVICE inline void philox_round(
    uint32_t& a,
    uint32_t& b,
    uint32_t& c,
    uint32_t& d,
    uint32_t key0,
    uint32_t key1) {
  const uint64_t left = static_cast<uint64_t>(kPhiloxMultiplier0) * a;
  const uint64_t right = static_cast<uint64_t>(kPhiloxMultiplier1) * c;
  a = static_cast<uint32_t>(right >> 32) ^ b ^ key0;
  b = static_cast<uint32_t>(right);
  c = static_cast<uint32_t>(left >> 32) ^ d ^ key1;
  d = static_cast<uint32_t>(left);
}

/// The block at the counter whose lower 64 bits are `low` and whose upper are `high`.
WEFT_HOST_DEVICE inline PhiloxBlock philox(uint64_t key, uint64_t low, uint64_t high) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock block{
      {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
       static_cast<uint32_t>(high >> 32)}};
  auto& w = block.words;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(w[0], w[1], w[2], w[3], key0, key1);
    key0 += kPhiloxWeyl0;
    key1 += kPhiloxWeyl1;
  }
  return block;
}

} // namespace weft
