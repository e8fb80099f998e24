#pragma once

#include "tests/integration/random_program.h"

#include <functional>

namespace weft::testing {

/// Random choices that are the same with every standard library.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  /// At least 0 and less than `count`.
  int64_t below(int64_t count) {
    return static_cast<int64_t>(engine_() % static_cast<uint64_t>(count));
  }
  bool coin() {
    return below(2) == 0;
  }

 private:
  std::mt19937_64 engine_;
};

/// An operator that programs are made of.
struct ProgramOp {
  std::string name;
  /// Chooses numbers, and operands beyond the first, for a first operand; nothing where it does not fit.
  std::function<std::optional<ProgramStep>(Dice& dice, const Tensors& values, size_t first)> propose;
  std::function<at::Tensor(const Tensors& operands, const std::vector<int64_t>& numbers)> run;
  /// Writes to its first operand, which it returns.
  bool is_in_place = false;
  /// Its gradient jumps where values are equal, as they may be on one device and not, by rounding, on several.
  bool has_gradient = true;
  /// Rounds to single precision: the terms of a partial value, each by itself, where the single device rounds their sum.
  bool is_rough = false;
};

const std::vector<ProgramOp>& program_ops();

} // namespace weft::testing
