#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/redistribute/plan.h"
#include "weft/rules/rule.h"

#include <optional>
#include <vector>

namespace weft {

/// An operand of a call with its spec.
struct PlacedOperand {
  SpecPtr spec;
  /// True of a parameter: it is redistributed only if nothing else is possible, so that activations are redistributed
  /// instead.
  bool is_stationary = false;
};

/// An output that is stored in an operand (in-place and out= operators); the operand keeps its layout.
struct StoredOutput {
  /// The operand is written to but is no output of the rule (running statistics).
  static constexpr int64_t kNone = -1;

  int64_t output;
  int64_t operand;
  /// Whether the operand may be redistributed first and the result redistributed back.
  bool may_redistribute = false;
};

/// The strategy for one call: the layout that every operand must have, and the layout that every output then has.
struct Strategy {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
  std::vector<Layout> size_arguments; // of tensors with the sizes that the rule's size arguments state
  std::vector<int64_t> lookup_dims;   // the mesh dims that shard the factor of the rule's lookup
  double cost = 0;                    // of redistributing the operands, in seconds, by the link model
};

/// The spec of an operand whose values are not read: partial placements count as R, because no reduction is needed.
SpecPtr unread_spec(const SpecPtr& spec);

/// The cheapest strategy for a call under its rule; empty if every strategy would change the layout of a stored output.
/// It depends on its arguments only, so all ranks choose the same.
std::optional<Strategy> choose(
    const Rule& rule,
    c10::ArrayRef<PlacedOperand> operands,
    c10::ArrayRef<StoredOutput> stored = {});

} // namespace weft
