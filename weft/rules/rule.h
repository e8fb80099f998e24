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
///   mm          ([a,b],[b,c])->([a,c]) sum={b} linear={0}{1}
///   add         ([a,b],[b])->([a,b]) linear={0,1}
///   addmm       ([c],[a,b],[b,c])->([a,c]) sum={b} added={0} linear={0,1}{0,2}
///   view        ([(a b),c])->([a,b,c]) linear*={0}
///   softmax     ([a,b])->([a,b]) whole={b}
///   embedding   ([a,b],[c])->([c,b]) sum={a} lookup={1 in a}
///   amax        ([a,b])->([a]) max={b} filled={b} linear(max)={0}
///
/// A factor may be cut unless it is `whole`: every tensor that has it is then sharded along it, an input that lacks it is
/// replicated, and an output that lacks it is partial, for it holds what one part of the factor gives. Never listed:
/// everything replicated, which is always right.
struct Rule {
  using Factor = int16_t;
  /// The factors that a tensor dim is made of, the one that varies slowest first; none where a dim cannot be cut.
  using Dim = c10::SmallVector<Factor, 1>;
  using Dims = c10::SmallVector<Dim, 4>;

  /// An argument that states sizes (of a view, say): locally it states what is left of them.
  struct SizeArgument {
    std::string name;
    std::vector<int64_t> sizes; // global; one for an integer argument
    Dims dims;                  // of each size
  };
  /// An operand that holds positions along a factor. Where that is cut, a rank looks up the positions it holds and gives
  /// zeros for the others, so that the sum over ranks is the value.
  struct Lookup {
    int64_t operand;
    Factor factor;
  };

  std::vector<int64_t> sizes; // of the factors
  std::vector<Dims> inputs;   // of every operand
  std::vector<Dims> outputs;  // of every tensor that comes out
  std::vector<Factor> whole;
  /// Factors of which every rank must hold some: the local operator does not take tensors that are empty along them.
  std::vector<Factor> filled;
  ReduceOp reduction = ReduceOp::Sum; // of outputs that lack a factor which is cut
  /// Operands that are added to what is reduced: where a reduced factor is cut, they are partial and not replicated.
  std::vector<int64_t> addends;
  /// Sets of operands that may be partial together while the others are replicated; the outputs are then partial too.
  std::vector<std::vector<int64_t>> linear;
  /// Whether the linear sets hold for partial values of any operation, not for sums and averages alone.
  bool linear_in_any_op = false;
  /// The operation whose partial values the linear sets hold for, in place of sums and averages: amax passes maxima.
  std::optional<ReduceOp> linear_op;
  /// Operands of which only shape and dtype matter: partial values need not be reduced.
  std::vector<int64_t> unread;
  /// Operands of which only the dtype matters: they lie as they do.
  std::vector<int64_t> of_any_layout;
  /// Operands that are updated in place without being returned (running statistics): they keep their layout.
  std::vector<int64_t> updated;
  /// Outputs that are the same whatever is cut.
  std::vector<int64_t> constant;
  std::vector<SizeArgument> size_arguments;
  std::optional<Lookup> lookup;

  Factor add_factor(int64_t size) {
    sizes.push_back(size);
    return static_cast<Factor>(sizes.size() - 1);
  }
  bool is_whole(Factor factor) const;
  /// Whether the factor is in no output.
  bool is_reduced(Factor factor) const;
  /// The number of elements that a dim has.
  int64_t size_of(const Dim& dim) const;
  static bool has(const Dims& dims, Factor factor);

  std::string to_string() const;
};

/// The rule of one call, or none: the call then runs on replicated tensors. Pure.
using RuleFunction = std::function<std::optional<Rule>(const OpCall&)>;

} // namespace weft
