#pragma once

#include "weft/tensor/random/random_math.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <limits>
#include <type_traits>

namespace weft {

/// How Philox blocks become random numbers, on host and device. The elements of a tensor are divided into groups, each
/// of kLanes blocks. A block gives the numbers of kPerBlock elements of its group, which are kLanes apart. So vector
/// code computes the blocks of a group together, and stores their numbers in the order of the elements:
///
///   element i is in group i / (kLanes * kPerBlock), takes block group * kLanes + i % kLanes, and of that block's
///   numbers the one at (i / kLanes) % kPerBlock
constexpr int64_t kLanes = 16;

/// The type in which the numbers of elements of type T are computed.
template <class T>
using Real = std::conditional_t<sizeof(T) <= 4 && !std::is_integral_v<T>, float, double>;

/// The largest T below `bound`, to which numbers of a half-open interval are clamped after rounding.
template <class T>
T largest_below(double bound) {
  const T rounded = static_cast<T>(bound);
  if (static_cast<double>(rounded) < bound) {
    return rounded;
  }
  if constexpr (std::is_floating_point_v<T>) {
    return std::nextafter(rounded, -std::numeric_limits<T>::infinity());
  } else {
    constexpr uint16_t kSign = 0x8000;
    const uint16_t bits = rounded.x;
    const bool is_zero = (bits & ~kSign) == 0;
    return T(
        is_zero ? static_cast<uint16_t>(kSign | 1) : static_cast<uint16_t>((bits & kSign) != 0 ? bits + 1 : bits - 1),
        T::from_bits());
  }
}

struct UniformFloat {
  using Value = float;
  static constexpr int64_t kPerBlock = 4;
  float from, width, limit, unit;
  int shift; // leaves as many bits as the element type holds exactly
  WEFT_HOST_DEVICE void operator()(const uint32_t (&w)[4], float (&out)[4]) const {
    for (int k = 0; k < 4; ++k) {
      const float value = static_cast<float>(static_cast<int32_t>(w[k] >> shift)) * unit * width + from;
      out[k] = value < limit ? value : limit;
    }
  }
};

struct UniformDouble {
  using Value = double;
  static constexpr int64_t kPerBlock = 2;
  double from, width, limit;
  WEFT_HOST_DEVICE void operator()(const uint32_t (&w)[4], double (&out)[2]) const {
    for (int k = 0; k < 2; ++k) {
      const auto bits = static_cast<int64_t>(random_math::join(w[2 * k], w[2 * k + 1]) >> 11);
      const double value = static_cast<double>(bits) * 0x1p-53 * width + from;
      out[k] = value < limit ? value : limit;
    }
  }
};

/// The random bits for one number: a word of 32 bits for float, two words as 64 bits for double.
template <class R>
struct WordsOf {
  static constexpr int64_t kPerBlock = 4;
  using Word = uint32_t;
  WEFT_HOST_DEVICE static Word word(const uint32_t (&w)[4], int k) {
    return w[k];
  }
};
template <>
struct WordsOf<double> {
  static constexpr int64_t kPerBlock = 2;
  using Word = uint64_t;
  WEFT_HOST_DEVICE static Word word(const uint32_t (&w)[4], int k) {
    return random_math::join(w[2 * k], w[2 * k + 1]);
  }
};

/// Box-Muller: two words make two numbers.
template <class R, bool IsLog>
struct NormalSampler {
  using Value = R;
  using Words = WordsOf<R>;
  static constexpr int64_t kPerBlock = Words::kPerBlock;
  R mean, deviation;
  WEFT_HOST_DEVICE void operator()(const uint32_t (&w)[4], R (&out)[kPerBlock]) const {
    for (int k = 0; k < kPerBlock; k += 2) {
      const R radius = random_math::sqrt_of(R(-2) * random_math::log_of(random_math::open_fraction(Words::word(w, k))));
      R cosine = 0;
      R sine = 0;
      random_math::cos_and_sin_of_turn(Words::word(w, k + 1), cosine, sine);
      out[k] = radius * cosine * deviation + mean;
      out[k + 1] = radius * sine * deviation + mean;
      if constexpr (IsLog) {
        out[k] = random_math::exp_of(out[k]);
        out[k + 1] = random_math::exp_of(out[k + 1]);
      }
    }
  }
};

} // namespace weft
