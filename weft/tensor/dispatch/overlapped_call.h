#pragma once

#include "weft/tensor/dispatch/call_overlap.h"
#include "weft/tensor/impl/prepared_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// How a matmul overlaps with a collective, where its CallOverlap says so: with the gathering of its left operand, of which rows
/// are multiplied as they arrive, or with the scattering of its result, of which rows are sent as they are done
/// (weft/overlap/fused_matmul.h). The operand or result is sharded along a dim that is not summed over. What else has to move is
/// moved before.
///
///   linear(x {S(1)}, weight {S(0)})      ->  all_gather_matmul(x, weight^T) along dim 1
struct OverlappedCall {
  size_t left = 0; // operands, by number
  size_t right = 1;
  std::optional<size_t> bias = std::nullopt;
  bool transposes_right = false;        // of linear, which keeps it so
  bool adds_bias_after = false;         // it is no row of columns
  PreparedCall::Moves other_moves = {}; // as PreparedCall::moves, without that of `left`
  std::shared_ptr<Group> group;
  int64_t dim;  // that is gathered or scattered
  int64_t size; // of the global tensor along it
  CallOverlap overlap;
};

/// Nothing for a call that cannot run so. The same on every rank.
std::shared_ptr<OverlappedCall> find_overlap(
    const c10::OperatorName& op,
    const PreparedCall& call,
    c10::ArrayRef<Layout> targets);

/// Whether this thread runs the call so now. Every rank of the group must ask alike: they may have to measure.
bool runs_overlapped(const PreparedCall& call);

/// Why a call is run as it now is.
std::shared_ptr<const Explanation> current_explanation(const PreparedCall& call);

/// The local result, of the locals of the operands, of which all but `left` are where they have to be. `arguments` are the
/// call's.
at::Tensor run_overlapped(
    const OverlappedCall& overlapped,
    const std::string& op,
    c10::ArrayRef<at::Tensor> locals,
    c10::ArrayRef<c10::IValue> arguments);

} // namespace weft
