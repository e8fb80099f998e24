#pragma once

#include "weft/propagation/choose.h"
#include "weft/propagation/operator_traits.h"

namespace weft {

/// A tensor argument of a call, as far as a decision goes.
struct CallOperand {
  int32_t argument;
  int32_t position; // in a list; -1 for a tensor argument
  SpecPtr spec;
  bool is_stationary = false; // see PlacedOperand
  bool is_plain = false;      // no distributed tensor: what is written to it stays on the rank
};

/// How a call is run, as the rules and the costs of moving its operands have it: the same on every rank, and on none in
/// particular.
struct Decision {
  /// An argument that states sizes: locally it states what the layout leaves of them.
  struct SizeArgument {
    int64_t argument;
    std::vector<int64_t> sizes;
    Layout layout;
  };
  /// See Rule::Lookup and PreparedCall::Lookup.
  struct Lookup {
    int64_t operand;
    int64_t size;
    Layout layout; // of a tensor of the positions' dim alone
    bool masks_output;
    int64_t table = 0;
    int64_t table_dim = 0;
  };

  /// What the rule says of an output; a size is -1 where it does not.
  struct ExpectedOutput {
    Layout layout;
    std::vector<int64_t> sizes;
  };

  const Decomposition* decomposition = nullptr; // the call is run as other operators; nothing else is then said
  std::vector<SpecPtr> sources;                 // of the operands as they are read
  std::vector<Layout> targets;                  // of the operands
  std::vector<SizeArgument> size_arguments;
  std::optional<Lookup> lookup;
  std::vector<ExpectedOutput> expected; // none in a fallback: every output is replicated
  bool is_fallback = false;
  std::string reason;

  /// Whether an operand has to be redistributed before the call.
  bool moves(size_t operand, const SpecPtr& spec) const {
    return !(sources[operand]->layout() == targets[operand] || spec->layout() == targets[operand]);
  }
};

/// Decides. The tensors among the arguments are not looked at, but for which of a list are there. `may_move_stored`: what
/// is written to may be moved and brought back, if nothing else is possible.
///
///   mm(f32[8,8] {S(0)}, f32[8,8] {S(1)})   ->   targets {S(0)} {R}, expected {S(0)}: the second operand is gathered
Decision decide(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<CallOperand> operands,
    bool may_move_stored);

} // namespace weft
