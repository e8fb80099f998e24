#pragma once

#include "weft/tensor/random/random_samplers.h"

namespace weft {

/// Computes one number from one word, by the inverse of the distribution function.
template <class R, class Inverse>
struct InverseSampler {
  using Value = R;
  using Words = WordsOf<R>;
  static constexpr int64_t kPerBlock = Words::kPerBlock;
  Inverse inverse;
  WEFT_HOST_DEVICE void operator()(const uint32_t (&w)[4], R (&out)[kPerBlock]) const {
    for (int k = 0; k < kPerBlock; ++k) {
      out[k] = inverse(random_math::open_fraction(Words::word(w, k)));
    }
  }
};

template <class R>
struct ExponentialInverse {
  R rate, least; // `least`: the result is never 0, because users divide by it
  WEFT_HOST_DEVICE R operator()(R u) const {
    const R value = -random_math::log_of(u);
    return (value > least ? value : least) / rate;
  }
};

template <class R>
struct CauchyInverse {
  R median, scale;
  WEFT_HOST_DEVICE R operator()(R u) const {
    return median + scale * random_math::tan_of(R(3.14159265358979323846) * (u - R(0.5)));
  }
};

template <class R>
struct GeometricInverse {
  R log_failure;
  WEFT_HOST_DEVICE R operator()(R u) const {
    const R trials = ceil(random_math::log_of(u) / log_failure);
    return trials > R(1) ? trials : R(1);
  }
};

/// Compares integers, so that the element type does not matter.
struct BernoulliSampler {
  using Value = float;
  static constexpr int64_t kPerBlock = 4;
  uint32_t last; // the largest word that is a success
  float success; // 0 if no word is a success
  WEFT_HOST_DEVICE void operator()(const uint32_t (&w)[4], float (&out)[4]) const {
    for (int k = 0; k < 4; ++k) {
      out[k] = w[k] <= last ? success : 0.0F;
    }
  }
};

struct IntegerSampler {
  using Value = int64_t;
  static constexpr int64_t kPerBlock = 2;
  uint64_t first, count;
  WEFT_HOST_DEVICE void operator()(const uint32_t (&w)[4], int64_t (&out)[2]) const {
    for (int k = 0; k < 2; ++k) {
      const auto word = random_math::join(w[2 * k], w[2 * k + 1]);
      out[k] = static_cast<int64_t>(first + (count == 0 ? word : random_math::scaled_to(word, count)));
    }
  }
};

struct FractionSampler {
  using Value = double;
  static constexpr int64_t kPerBlock = 4;
  WEFT_HOST_DEVICE void operator()(const uint32_t (&w)[4], double (&out)[4]) const {
    for (int k = 0; k < 4; ++k) {
      out[k] = static_cast<double>(w[k]) * 0x1p-32;
    }
  }
};

} // namespace weft
