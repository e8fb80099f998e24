#include "weft/files/crc32c_ways.h"

#include "weft/files/castagnoli.h"

#include <array>
#include <cstddef>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define WEFT_CRC32C_OF_X86
#define WEFT_INSTRUCTION __attribute__((target("sse4.2")))
#define WEFT_VECTORS __attribute__((target("avx512f,vpclmulqdq,sse4.2")))
#endif

namespace weft {

namespace {

using castagnoli::power_of_x;
using castagnoli::product_of;
using castagnoli::shift_by;

constexpr std::array<uint32_t, 256> make_byte_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = product_of(byte, shift_by(1));
  }
  return table;
}
constexpr auto kByteTable = make_byte_table();

uint32_t advance_by_table(uint32_t state, const char* at, const char* end) {
  for (; at != end; ++at) {
    state = state >> 8 ^ kByteTable[(state ^ static_cast<unsigned char>(*at)) & 0xff];
  }
  return state;
}

#ifdef WEFT_CRC32C_OF_X86
constexpr size_t kLane = 8192; // bytes of one of three lanes
constexpr auto kOneLane = shift_by(kLane);
constexpr auto kTwoLanes = shift_by(2 * kLane);

/// The instruction takes three cycles, but one can begin in every cycle, so three lanes are computed at a time.
WEFT_INSTRUCTION uint32_t advance_by_instruction(uint32_t state, const char* at, const char* end) {
  const auto word = [](const char* from) {
    uint64_t value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  for (; static_cast<size_t>(end - at) >= 3 * kLane; at += 3 * kLane) {
    uint64_t first = state;
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kLane; i += sizeof(uint64_t)) {
      first = _mm_crc32_u64(first, word(at + i));
      second = _mm_crc32_u64(second, word(at + kLane + i));
      third = _mm_crc32_u64(third, word(at + 2 * kLane + i));
    }
    state = product_of(kTwoLanes, static_cast<uint32_t>(first)) ^ product_of(kOneLane, static_cast<uint32_t>(second)) ^
        static_cast<uint32_t>(third);
  }
  uint64_t rest = state;
  for (; end - at >= 8; at += 8) {
    rest = _mm_crc32_u64(rest, word(at));
  }
  return advance_by_table(static_cast<uint32_t>(rest), at, end);
}

constexpr size_t kVector = 64; // bytes: four pairs of words
constexpr size_t kVectors = 8; // that are folded independently of each other
constexpr size_t kStep = kVectors * kVector;

/// The factors that shift a pair of words by so many bytes. The first word of a pair has the higher powers. A product of two words has its
/// bits one place too low for a pair, as if it were multiplied by x.
WEFT_VECTORS __m512i shift_factors(uint32_t first, uint32_t second) {
  const auto word = [](uint32_t factor) { return static_cast<int64_t>(uint64_t{factor} << 32); };
  return _mm512_set4_epi64(word(second), word(first), word(second), word(first));
}
constexpr uint32_t first_factor(uint64_t bytes) {
  return power_of_x(8 * bytes + 63);
}
constexpr uint32_t second_factor(uint64_t bytes) {
  return power_of_x(8 * bytes - 1);
}
constexpr auto kFirstOfStep = first_factor(kStep);
constexpr auto kSecondOfStep = second_factor(kStep);
constexpr auto kFirstOfVector = first_factor(kVector);
constexpr auto kSecondOfVector = second_factor(kVector);

/// `next` plus what comes before it, shifted to its place. This has the same checksum as both, one after the other.
WEFT_VECTORS __m512i folded(__m512i before, __m512i factors, __m512i next) {
  constexpr int kSumOfThree = 0x96;
  return _mm512_ternarylogic_epi64(
      _mm512_clmulepi64_epi128(before, factors, 0x00), _mm512_clmulepi64_epi128(before, factors, 0x11), next,
      kSumOfThree);
}

/// Folds the text into one vector by multiplications without carries, and takes the checksum of that.
WEFT_VECTORS uint32_t advance_by_vectors(uint32_t state, const char* at, const char* end) {
  if (static_cast<size_t>(end - at) < kStep) {
    return advance_by_instruction(state, at, end);
  }
  __m512i vectors[kVectors]; // std::array would drop the alignment of the type
  for (size_t i = 0; i < kVectors; ++i) {
    vectors[i] = _mm512_loadu_si512(at + i * kVector);
  }
  vectors[0] = _mm512_xor_si512(vectors[0], _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, state));
  const auto of_step = shift_factors(kFirstOfStep, kSecondOfStep);
  for (at += kStep; static_cast<size_t>(end - at) >= kStep; at += kStep) {
    for (size_t i = 0; i < kVectors; ++i) {
      vectors[i] = folded(vectors[i], of_step, _mm512_loadu_si512(at + i * kVector));
    }
  }
  const auto of_vector = shift_factors(kFirstOfVector, kSecondOfVector);
  for (size_t i = 1; i < kVectors; ++i) {
    vectors[i] = folded(vectors[i - 1], of_vector, vectors[i]);
  }
  std::array<char, kVector> all = {};
  _mm512_storeu_si512(all.data(), vectors[kVectors - 1]);
  return advance_by_instruction(advance_by_instruction(0, all.data(), all.data() + kVector), at, end);
}
#endif

} // namespace

std::vector<Crc32cWay> crc32c_ways() {
  std::vector<Crc32cWay> ways;
#ifdef WEFT_CRC32C_OF_X86
  if (__builtin_cpu_supports("sse4.2") != 0) {
    if (__builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0) {
      ways.push_back({"vectors", advance_by_vectors});
    }
    ways.push_back({"instruction", advance_by_instruction});
  }
#endif
  ways.push_back({"table", advance_by_table});
  return ways;
}

} // namespace weft
