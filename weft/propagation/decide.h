#pragma once

#include "weft/propagation/choose.h"
#include "weft/propagation/operator_traits.h"

#include <algorithm>

namespace weft {

/// The properties of a tensor argument that the decision depends on.
struct CallOperand {
  int32_t argument;
  int32_t position; // in a tensor list; -1 for a tensor argument
  SpecPtr spec;
  bool is_stationary = false; // see PlacedOperand
  bool is_plain = false;      // not a distributed tensor: its values stay on the rank
};

/// The decision how a call runs, from its rule and the cost of redistributing its operands. It depends on specs only,
/// so all ranks make the same decision.
struct Decision {
  /// An argument that states sizes: its local value states the local sizes under the layout.
  struct SizeArgument {
    int64_t argument;
    std::vector<int64_t> sizes;
    Layout layout;
  };
  /// See Rule::Lookup and PreparedCall::Lookup.
  struct Lookup {
    int64_t operand;
    int64_t size;
    Layout layout; // of a 1-D tensor along the looked-up dim
    bool masks_output;
    int64_t table = 0;
    int64_t table_dim = 0;
  };

  /// The layout and sizes of an output by the rule; a size is -1 if the rule does not determine it. A rule that lists
  /// strategies determines the layout alone: there are no sizes then.
  struct ExpectedOutput {
    Layout layout;
    std::vector<int64_t> sizes;

    bool fits(c10::IntArrayRef actual) const {
      const auto fits_one = [](int64_t expected, int64_t size) { return expected == -1 || expected == size; };
      return sizes.empty() || std::equal(sizes.begin(), sizes.end(), actual.begin(), actual.end(), fits_one);
    }
  };

  const Decomposition* decomposition = nullptr; // the call runs as other operators, and the fields below are unset
  std::vector<SpecPtr> sources;                 // the specs that the operands are read with
  std::vector<Layout> targets;                  // the layouts that the operands need
  std::vector<size_t> unread;                   // operands of which only shape and dtype are read
  std::vector<size_t> written;                  // operands that the call writes to
  std::vector<SizeArgument> size_arguments;
  std::optional<Lookup> lookup;
  std::vector<ExpectedOutput> expected; // empty in a fallback: every output is replicated
  bool is_fallback = false;
  std::string reason;

  /// Whether an operand has to be redistributed before the call.
  bool redistributes(size_t operand, const SpecPtr& spec) const {
    return !(sources[operand]->layout() == targets[operand] || spec->layout() == targets[operand]);
  }
  bool is_unread(size_t operand) const {
    return std::find(unread.begin(), unread.end(), operand) != unread.end();
  }
  bool is_written(size_t operand) const {
    return std::find(written.begin(), written.end(), operand) != written.end();
  }
};

/// Decides how a call runs. Reads no tensors among the arguments, except which tensors of a list are present.
/// `may_redistribute_stored`: an operand that is written to may be redistributed and redistributed back if nothing else
/// is possible.
/// `numbers_keep_linear`: see keep_linear(); if false, no partial operand is passed on.
///
///   mm(f32[8,8] {S(0)}, f32[8,8] {S(1)})   ->   targets {S(0)} {R}, expected {S(0)}: the second operand is gathered
Decision decide(
    const c10::OperatorHandle& op,
    const OperatorTraits& traits,
    c10::ArrayRef<c10::IValue> arguments,
    c10::ArrayRef<CallOperand> operands,
    bool may_redistribute_stored,
    bool numbers_keep_linear = true);

} // namespace weft
