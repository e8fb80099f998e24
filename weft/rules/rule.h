#pragma once

#include "weft/core/placement.h"
#include "weft/rules/op_call.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// What an operator does to a sharding, for one call: its tensor dims are made of factors, as in einsum.
///
///   mm        ([a,b],[b,c])->([a,c]) sum={b} linear={0}{1}
///   add       ([a,b],[b])->([a,b]) linear={0,1}
///   addmm     ([c],[a,b],[b,c])->([a,c]) sum={b} added={0} linear={0,1}{0,2}
///   view      ([(a b),c])->([a,b,c]) linear={0}
///   softmax   ([a,b])->([a,b]) whole={b}
///
/// A factor of all outputs may be sharded: every operand that has it is cut along it, the others are whole. A factor of
/// inputs alone is reduced: the outputs become partial. A factor that is `whole` is never cut. Never listed: everything
/// replicated, which is always right.
struct Rule {
  using Factor = int16_t;
  /// The factors that a tensor dim is made of, the one that varies slowest first; none where a dim cannot be cut.
  using Dim = c10::SmallVector<Factor, 1>;
  using Dims = c10::SmallVector<Dim, 4>;

  std::vector<int64_t> sizes; // of the factors
  std::vector<Dims> inputs;   // of every operand
  std::vector<Dims> outputs;  // of every tensor that comes out
  std::vector<Factor> whole;
  ReduceOp reduction = ReduceOp::Sum; // by which factors of inputs alone are reduced
  /// Operands that are added to what is reduced: where a reduced factor is cut, they are partial and not replicated.
  std::vector<int64_t> addends;
  /// Sets of operands that may be partial together while the others are replicated; the outputs are then partial too.
  std::vector<std::vector<int64_t>> linear;
  /// Whether the linear sets hold for partial values of any operation, not for sums and averages alone.
  bool linear_in_any_op = false;
  /// The argument that states the output's shape, if there is one: locally it is the local shape.
  std::string shape_argument;

  Factor add_factor(int64_t size) {
    sizes.push_back(size);
    return static_cast<Factor>(sizes.size() - 1);
  }
  bool is_whole(Factor factor) const;
  /// Whether the factor is in no output.
  bool is_reduced(Factor factor) const;
  static bool has(const Dims& dims, Factor factor);

  std::string to_string() const;
};

/// The rule of one call, or none: the call then runs on replicated tensors. Pure.
using RuleFunction = std::function<std::optional<Rule>(const OpCall&)>;

} // namespace weft
