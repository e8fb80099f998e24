#pragma once

#include <cstdint>

/// Arithmetic of checksums: a bit is the coefficient of a power of x, the highest bit that of x^0, and everything is modulo the
/// polynomial of CRC-32C.
namespace weft::castagnoli {

constexpr uint32_t kPolynomial = 0x82f63b78;
constexpr uint32_t kOne = uint32_t{1} << 31;

constexpr uint32_t product_of(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (auto bit = kOne; bit != 0; bit >>= 1) {
    product ^= (a & bit) != 0 ? b : 0;
    b = (b & 1) != 0 ? b >> 1 ^ kPolynomial : b >> 1;
  }
  return product;
}

constexpr uint32_t power_of_x(uint64_t exponent) {
  auto result = kOne;
  auto power = kOne >> 1; // x^1, then x^2, x^4, ...
  for (; exponent != 0; exponent >>= 1) {
    result = (exponent & 1) != 0 ? product_of(result, power) : result;
    power = product_of(power, power);
  }
  return result;
}

/// The factor by which `bytes` zero bytes after a text multiply its checksum.
constexpr uint32_t shift_by(uint64_t bytes) {
  return power_of_x(8 * bytes);
}

} // namespace weft::castagnoli
