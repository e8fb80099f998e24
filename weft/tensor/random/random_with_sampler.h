#pragma once

#include "weft/tensor/random/random_distribution.h"
#include "weft/tensor/random/random_inverse_samplers.h"
#include "weft/tensor/random/random_samplers.h"

#include <ATen/Dispatch.h>
#include <c10/util/Exception.h>

namespace weft {

/// The success words of a Bernoulli trial: those below probability * 2^32.
inline BernoulliSampler bernoulli_sampler(double probability) {
  const auto successes = static_cast<uint64_t>(std::ceil(probability * 0x1p32));
  return successes == 0 ? BernoulliSampler{0, 0} : BernoulliSampler{static_cast<uint32_t>(successes - 1), 1};
}

/// Calls `fn(sampler)` with the sampler of a distribution for elements of type T.
template <class T, class Fn>
void with_sampler_of(const Distribution& d, const Fn& fn) {
  using Kind = Distribution::Kind;
  using R = Real<T>;
  const auto a = static_cast<R>(d.a);
  const auto b = static_cast<R>(d.b);
  switch (d.kind) {
    case Kind::Geometric:
      return fn(InverseSampler<R, GeometricInverse<R>>{{static_cast<R>(std::log1p(-d.a))}});
    case Kind::Bernoulli:
      return fn(bernoulli_sampler(d.a));
    case Kind::Integers:
      return fn(IntegerSampler{static_cast<uint64_t>(d.first), d.count});
    default:
      break;
  }
  if constexpr (!std::is_integral_v<T>) {
    switch (d.kind) {
      case Kind::Uniform: {
        const auto limit = d.a < d.b ? static_cast<R>(largest_below<T>(d.b)) : a;
        if constexpr (std::is_same_v<T, double>) {
          return fn(UniformDouble{a, d.b - d.a, limit});
        } else {
          constexpr int kDigits = std::numeric_limits<T>::digits;
          return fn(UniformFloat{a, static_cast<float>(d.b - d.a), limit, std::ldexp(1.0F, -kDigits), 32 - kDigits});
        }
      }
      case Kind::Normal:
        return fn(NormalSampler<R, false>{a, b});
      case Kind::LogNormal:
        return fn(NormalSampler<R, true>{a, b});
      case Kind::Exponential:
        return fn(InverseSampler<R, ExponentialInverse<R>>{{a, std::numeric_limits<R>::epsilon() / 2}});
      case Kind::Cauchy:
        return fn(InverseSampler<R, CauchyInverse<R>>{{a, b}});
      case Kind::Fraction:
        if constexpr (std::is_same_v<T, double>) {
          return fn(FractionSampler{});
        }
        break;
      default:
        break;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "no sampler of distribution ", static_cast<int>(d.kind), " for this dtype");
}

/// Calls `fn.template operator()<T>(sampler)` for the element type of a dtype.
template <class Fn>
void with_sampler(c10::ScalarType dtype, const Distribution& distribution, const Fn& fn) {
  AT_DISPATCH_ALL_TYPES_AND3(at::kHalf, at::kBFloat16, at::kBool, dtype, "fill_random", [&] {
    using T = scalar_t;
    with_sampler_of<T>(distribution, [&](const auto& sampler) { fn.template operator()<T>(sampler); });
  });
}

} // namespace weft
