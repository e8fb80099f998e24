#include "weft/graph/pt2/crc32.h"

#include <ATen/Parallel.h>

#include <array>
#include <utility>
#include <vector>

namespace weft::graph {

namespace {

// A bit is the coefficient of a power of x, the highest bit that of x^0. Arithmetic is modulo this polynomial.
constexpr uint32_t kPolynomial = 0xedb88320;
constexpr uint32_t kOne = uint32_t{1} << 31;
constexpr size_t kLanes = 16;
constexpr int64_t kChunkBytes = int64_t{4} << 20;

using Table = std::array<uint32_t, 256>;

/// tables[n][b]: the contribution of the byte b to the checksum if n bytes follow it.
constexpr std::array<Table, kLanes> make_tables() {
  std::array<Table, kLanes> tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    auto value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1) != 0 ? value >> 1 ^ kPolynomial : value >> 1;
    }
    tables[0][byte] = value;
  }
  for (size_t lane = 1; lane < kLanes; ++lane) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto before = tables[lane - 1][byte];
      tables[lane][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = make_tables();

/// The checksum after the next bytes, one per lane. The table lookups of the lanes are independent of each other.
/// Unrolled by hand because compilers unroll only at their highest optimization level.
template <size_t... Lane>
uint32_t behind_lanes(uint32_t value, const unsigned char* at, std::index_sequence<Lane...> /*lanes*/) {
  return (kTables[kLanes - 1 - Lane][at[Lane] ^ (Lane < 4 ? value >> 8 * (Lane % 4) & 0xff : 0)] ^ ...);
}

uint32_t crc32_of_chunk(std::string_view bytes) {
  auto value = ~uint32_t{0};
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  const auto* end = at + bytes.size();
  for (; end - at >= static_cast<int64_t>(kLanes); at += kLanes) {
    value = behind_lanes(value, at, std::make_index_sequence<kLanes>());
  }
  for (; at != end; ++at) {
    value = value >> 8 ^ kTables[0][(value ^ *at) & 0xff];
  }
  return ~value;
}

uint32_t multiplied(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (auto bit = kOne; bit != 0; bit >>= 1) {
    product ^= (a & bit) != 0 ? b : 0;
    b = (b & 1) != 0 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

} // namespace

uint32_t joined_crc32(uint32_t first, uint32_t second, uint64_t second_size) {
  auto shift = kOne;
  auto power = kOne >> 8; // the shift by one byte, then by two, by four, ...
  for (auto left = second_size; left != 0; left >>= 1) {
    shift = (left & 1) != 0 ? multiplied(shift, power) : shift;
    power = multiplied(power, power);
  }
  return multiplied(shift, first) ^ second;
}

uint32_t crc32(std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  std::vector<uint32_t> chunks((size + kChunkBytes - 1) / kChunkBytes);
  at::parallel_for(0, static_cast<int64_t>(chunks.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) {
      chunks[i] = crc32_of_chunk(bytes.substr(i * kChunkBytes, kChunkBytes));
    }
  });
  uint32_t result = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    result = joined_crc32(result, chunks[i], bytes.substr(i * kChunkBytes, kChunkBytes).size());
  }
  return result;
}

} // namespace weft::graph
