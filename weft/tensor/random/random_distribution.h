#pragma once

#include <cstdint>

namespace weft {

/// The distribution of random numbers. The parameters are those of ATen's in-place operators, and already checked.
struct Distribution {
  enum class Kind : uint8_t {
    Uniform,     // from a to b
    Normal,      // mean a, standard deviation b
    LogNormal,   // exp of Normal
    Exponential, // rate a
    Cauchy,      // median a, scale b
    Geometric,   // number of trials until the first success, of probability a
    Bernoulli,   // 1 with probability a, else 0
    Integers,    // first, first + 1, ..., first + count - 1; a count of 0 stands for 2^64
    Fraction,    // k / 2^32, to compare a probability with; for double only
  };

  Kind kind;
  double a = 0;
  double b = 0;
  int64_t first = 0;
  uint64_t count = 0;

  static Distribution uniform(double from, double to) {
    return {Kind::Uniform, from, to};
  }
  static Distribution normal(double mean, double deviation) {
    return {Kind::Normal, mean, deviation};
  }
  static Distribution log_normal(double mean, double deviation) {
    return {Kind::LogNormal, mean, deviation};
  }
  static Distribution exponential(double rate) {
    return {Kind::Exponential, rate};
  }
  static Distribution cauchy(double median, double scale) {
    return {Kind::Cauchy, median, scale};
  }
  static Distribution geometric(double probability) {
    return {Kind::Geometric, probability};
  }
  static Distribution bernoulli(double probability) {
    return {Kind::Bernoulli, probability};
  }
  static Distribution integers(int64_t first, uint64_t count) {
    return {Kind::Integers, 0, 0, first, count};
  }
  static Distribution fraction() {
    return {Kind::Fraction};
  }
};

} // namespace weft
