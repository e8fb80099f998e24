#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/redistribute/plan.h"
#include "weft/rules/rule.h"

#include <optional>
#include <vector>

namespace weft {

/// An operand of a call: where it is, and whether it should stay there.
struct PlacedOperand {
  SpecPtr spec;
  /// A parameter: moved only if nothing else is possible, so that activations come to the weights.
  bool is_stationary = false;
};

/// An output that is stored in an operand (in-place and out= operators), which keeps its layout.
struct StoredOutput {
  /// Written to, but no output of the rule (running statistics).
  static constexpr int64_t kNone = -1;

  int64_t output;
  int64_t operand;
  /// Whether the operand may be moved first and the result moved back.
  bool may_move = false;
};

/// How one call is run: the layout every operand must have, and the one every output then has.
struct Strategy {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::vector<Layout> size_arguments; // of tensors that had the sizes which the rule's size arguments state
  std::vector<int64_t> lookup_cuts;   // mesh dims that cut the factor of the rule's lookup
  double cost = 0;                    // of redistributing the operands, in seconds by the link model
};

/// The spec of an operand whose values are not read: a term of a partial value is as good as the value.
SpecPtr unread_spec(const SpecPtr& spec);

/// The cheapest way to run a call under its rule; nothing where no way leaves stored outputs as they are.
/// Pure: the same on every rank.
std::optional<Strategy> choose(
    const Rule& rule,
    c10::ArrayRef<PlacedOperand> operands,
    c10::ArrayRef<StoredOutput> stored = {});

} // namespace weft
