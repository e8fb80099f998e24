#pragma once

#include "weft/core/placement.h"
#include "weft/rules/op_call.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// The shardings that an operator supports, for one call. Its tensor dims consist of factors, as in einsum.
///
///   mm          ([a,b],[b,c])->([a,c]) sum={b} linear={0}{1}
///   add         ([a,b],[b])->([a,b]) linear={0,1}
///   addmm       ([c],[a,b],[b,c])->([a,c]) sum={b} added={0} linear={0,1}{0,2}
///   view        ([(a b),c])->([a,b,c]) linear*={0}
///   softmax     ([a,b])->([a,b]) unsharded={b}
///   embedding   ([a,b],[c])->([c,b]) sum={a} lookup={1 in a}
///   amax        ([a,b])->([a]) max={b} filled={b} linear(max)={0}
///   neg         ([a,b])->([a,b]) linear={0} decreasing={0}
///
/// A factor may be sharded unless it is listed in `unsharded={...}`. Then every tensor that has the factor is sharded along
/// it, an input without it is replicated, and an output without it is partial, because each rank computes it from one
/// shard of the factor. Replicating all operands is always correct and therefore not listed.
struct Rule {
  using Factor = int16_t;
  /// The factors of a tensor dim, the slowest-varying first; empty if the dim cannot be sharded.
  using Dim = c10::SmallVector<Factor, 1>;
  using Dims = c10::SmallVector<Dim, 4>;

  /// An argument that states sizes, for example of a view. Its local value states the local sizes.
  struct SizeArgument {
    std::string name;
    std::vector<int64_t> sizes; // global sizes; one for an integer argument
    Dims dims;                  // the factors of each size
  };
  /// An operand that holds positions along a factor. If the factor is sharded, a rank looks up the positions that it
  /// holds and returns zeros for the others, so that the sum over the ranks is the result.
  struct Lookup {
    int64_t operand;
    Factor factor;
  };
  /// The placement of every input and every output on one mesh dim, for rules that list strategies instead of factors.
  struct Listed {
    std::vector<Placement> inputs;
    std::vector<Placement> outputs;
    bool divides_sizes = false; // every size argument, of one size, is divided between the ranks
  };

  std::vector<int64_t> sizes;    // of the factors
  std::vector<Dims> inputs;      // the dims of every operand
  std::vector<Dims> outputs;     // the dims of every output
  std::vector<Factor> unsharded; // factors that must not be sharded
  /// Factors of which every rank must hold at least one index, because the local operator rejects empty tensors.
  std::vector<Factor> filled;
  ReduceOp reduction = ReduceOp::Sum; // of outputs without a factor that is sharded
  /// Operands that are added to the reduced value: if a reduced factor is sharded, they are partial instead of
  /// replicated.
  std::vector<int64_t> added;
  /// Sets of operands that may be partial together while the others are replicated; the outputs are then partial too.
  std::vector<std::vector<int64_t>> linear;
  /// Whether the linear sets apply to partial values of any op, not only to sums and averages.
  bool linear_in_any_op = false;
  /// The op of the partial values that the linear sets apply to, instead of sums and averages: amax passes maxima.
  std::optional<ReduceOp> linear_op;
  /// Operands in which the operator is monotone, whatever the values of the others: if one of them is a partial maximum
  /// or minimum and the others are replicated, so is the output (add). In a decreasing one a maximum becomes a minimum,
  /// and a minimum a maximum (neg).
  std::vector<int64_t> increasing;
  std::vector<int64_t> decreasing;
  /// Operands of which only shape and dtype are read: partial values need not be reduced.
  std::vector<int64_t> unread;
  /// Operands of which only the dtype is read: they keep their layout.
  std::vector<int64_t> of_any_layout;
  /// Operands that are updated in place and not returned (running statistics).
  std::vector<int64_t> updated;
  /// Outputs that do not depend on which factors are sharded.
  std::vector<int64_t> constant;
  std::vector<SizeArgument> size_arguments;
  std::optional<Lookup> lookup;
  /// Strategies in addition to those of the factors. One is used only where it divides every sharded input dim evenly,
  /// because nothing says how the sizes of the outputs follow from those of the inputs.
  std::vector<Listed> listed;

  Factor add_factor(int64_t size) {
    sizes.push_back(size);
    return static_cast<Factor>(sizes.size() - 1);
  }
  bool is_unsharded(Factor factor) const;
  /// Whether no output has the factor.
  bool is_reduced(Factor factor) const;
  /// The number of elements of a dim.
  int64_t size_of(const Dim& dim) const;
  static bool has(const Dims& dims, Factor factor);

  std::string to_string() const;
};

/// The rule of one call; without one, the call runs on replicated tensors. It depends on the call only.
using RuleFunction = std::function<std::optional<Rule>(const OpCall&)>;

} // namespace weft
