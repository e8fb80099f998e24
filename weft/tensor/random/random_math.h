#pragma once

#include "weft/tensor/random/philox.h"

#include <cmath>
#include <cstring>

namespace weft::random_math {

/// Elementary functions for random numbers, for float and double, on host and device. Those for float are made of
/// additions, multiplications and selections alone: compilers turn them into vector code, and they give the same bits
/// everywhere. (Where a compiler fuses multiplications with additions, it must be told not to.)

WEFT_HOST_DEVICE inline uint64_t join(uint32_t low, uint32_t high) {
  return static_cast<uint64_t>(high) << 32 | low;
}

/// A number in (0, 1), or 1 after rounding, so that its logarithm is finite.
WEFT_HOST_DEVICE inline float open_fraction(uint32_t word) {
  return (static_cast<float>(static_cast<int32_t>(word >> 1)) + 0.5F) * 0x1p-31F;
}
WEFT_HOST_DEVICE inline double open_fraction(uint64_t word) {
  return (static_cast<double>(static_cast<int64_t>(word >> 11)) + 0.5) * 0x1p-53;
}

/// The natural logarithm of a normal number above 0, to a few units in the last place: 2^e * (1 + x) with 1 + x between
/// sqrt(1/2) and sqrt(2), and a polynomial for log(1 + x).
WEFT_HOST_DEVICE inline float log_of(float value) {
  int32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  // Adding the distance from sqrt(1/2) to 1 carries into the exponent just where the fraction is too large.
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  constexpr int32_t kOne = 0x3f800000;
  const int32_t shifted = bits + (kOne - kSqrtHalf);
  const auto exponent = static_cast<float>((shifted >> 23) - 127);
  const int32_t fraction_bits = (shifted & 0x7fffff) + kSqrtHalf;
  float fraction = 0;
  std::memcpy(&fraction, &fraction_bits, sizeof fraction);
  const float x = fraction - 1.0F;
  float p = 0.0697161147F;
  p = p * x - 0.114797338F;
  p = p * x + 0.116854199F;
  p = p * x - 0.124256873F;
  p = p * x + 0.142490576F;
  p = p * x - 0.166678023F;
  p = p * x + 0.200007157F;
  p = p * x - 0.24999997F;
  p = p * x + 0.333333312F;
  const float square = x * x;
  // log(2) as a sum of two numbers. The product of the first with any exponent is exact.
  constexpr float kLog2High = 0.693359375F;
  constexpr float kLog2Low = -2.12194440e-4F;
  const float small = (p * x * square + exponent * kLog2Low) - 0.5F * square;
  return (x + small) + exponent * kLog2High;
}
WEFT_HOST_DEVICE inline double log_of(double value) {
  return log(value);
}

/// Cosine and sine of the angle 2 pi * word / 2^32: integer arithmetic finds the nearest multiple of a quarter turn,
/// and polynomials give the rest, of at most an eighth of a turn to either side.
WEFT_HOST_DEVICE inline void cos_and_sin_of_turn(uint32_t word, float& cosine, float& sine) {
  const uint32_t quarter = (word + 0x20000000U) >> 30;
  const auto rest = static_cast<int32_t>(word - (quarter << 30));
  const float angle = static_cast<float>(rest) * 1.46291807926715968e-9F; // 2 pi / 2^32
  const float square = angle * angle;
  const float s = angle + angle * square * (-0.166666647F + square * (0.00833274827F + square * -0.000195878909F));
  const float c =
      1.0F - 0.5F * square + square * square * (0.0416666647F + square * (-0.0013888303F + square * 2.45479421e-05F));
  const bool swapped = (quarter & 1) != 0;
  const float near_cosine = swapped ? s : c;
  const float near_sine = swapped ? c : s;
  cosine = ((quarter + 1) & 2) != 0 ? -near_cosine : near_cosine;
  sine = (quarter & 2) != 0 ? -near_sine : near_sine;
}
WEFT_HOST_DEVICE inline void cos_and_sin_of_turn(uint64_t word, double& cosine, double& sine) {
  const double angle = static_cast<double>(static_cast<int64_t>(word)) * 3.40612158008655459e-19; // 2 pi / 2^64
  cosine = cos(angle);
  sine = sin(angle);
}

WEFT_HOST_DEVICE inline float sqrt_of(float value) {
  return sqrtf(value);
}
WEFT_HOST_DEVICE inline double sqrt_of(double value) {
  return sqrt(value);
}
WEFT_HOST_DEVICE inline float exp_of(float value) {
  return expf(value);
}
WEFT_HOST_DEVICE inline double exp_of(double value) {
  return exp(value);
}
WEFT_HOST_DEVICE inline float tan_of(float value) {
  return tanf(value);
}
WEFT_HOST_DEVICE inline double tan_of(double value) {
  return tan(value);
}

/// The upper half of a product: `word` scaled to 0, 1, ..., count - 1.
WEFT_HOST_DEVICE inline uint64_t scaled_to(uint64_t word, uint64_t count) {
#ifdef __CUDA_ARCH__
  return __umul64hi(word, count);
#else
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(word) * count) >> 64);
#endif
}

} // namespace weft::random_math
