#include "weft/files/crc32c.h"

#include <array>
#include <cstring>

namespace weft {

namespace {

// A bit is the coefficient of a power of x, the highest bit that of x^0. Arithmetic is modulo this polynomial.
constexpr uint32_t kCastagnoli = 0x82f63b78;
constexpr uint32_t kUnit = uint32_t{1} << 31;

constexpr uint32_t product_of(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (auto bit = kUnit; bit != 0; bit >>= 1) {
    product ^= (a & bit) != 0 ? b : 0;
    b = (b & 1) != 0 ? b >> 1 ^ kCastagnoli : b >> 1;
  }
  return product;
}

/// The factor by which `bytes` zero bytes after a text multiply its checksum.
constexpr uint32_t shift_by(uint64_t bytes) {
  auto shift = kUnit;
  auto power = kUnit >> 8; // the shift by one byte, then by two, by four, ...
  for (; bytes != 0; bytes >>= 1) {
    shift = (bytes & 1) != 0 ? product_of(shift, power) : shift;
    power = product_of(power, power);
  }
  return shift;
}

constexpr std::array<uint32_t, 256> make_byte_table() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = product_of(byte, kUnit >> 8);
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

#if defined(__x86_64__) && defined(__GNUC__)
constexpr size_t kLane = 8192; // bytes of one of three lanes
constexpr auto kOneLane = shift_by(kLane);
constexpr auto kTwoLanes = shift_by(2 * kLane);

bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

/// The instruction takes three cycles, but one can begin in every cycle, so three lanes are computed at a time.
__attribute__((target("sse4.2"))) uint32_t advance_by_instruction(uint32_t state, const char* at, const char* end) {
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
      first = __builtin_ia32_crc32di(first, word(at + i));
      second = __builtin_ia32_crc32di(second, word(at + kLane + i));
      third = __builtin_ia32_crc32di(third, word(at + 2 * kLane + i));
    }
    state = product_of(kTwoLanes, static_cast<uint32_t>(first)) ^ product_of(kOneLane, static_cast<uint32_t>(second)) ^
        static_cast<uint32_t>(third);
  }
  uint64_t rest = state;
  for (; end - at >= 8; at += 8) {
    rest = __builtin_ia32_crc32di(rest, word(at));
  }
  return advance_by_table(static_cast<uint32_t>(rest), at, end);
}
#else
bool has_instruction() {
  return false;
}
uint32_t advance_by_instruction(uint32_t state, const char* at, const char* end) {
  return advance_by_table(state, at, end);
}
#endif

} // namespace

uint32_t crc32c(std::string_view bytes, uint32_t before) {
  const auto* begin = bytes.data();
  const auto* end = begin + bytes.size();
  return ~(has_instruction() ? advance_by_instruction(~before, begin, end) : advance_by_table(~before, begin, end));
}

uint32_t joined_crc32c(uint32_t first, uint32_t second, uint64_t second_size) {
  return product_of(shift_by(second_size), first) ^ second;
}

} // namespace weft
