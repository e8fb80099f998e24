#pragma once

#include "weft/overlap/fused_matmul.h"
#include "weft/overlap/overlap_cost.h"
#include "weft/tensor/impl/prepared_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// How a matmul runs beside the gathering of its left operand, where that is cut along a dim that is not summed over: rows
/// are multiplied as they arrive (weft/overlap/fused_matmul.h). What else has to move is moved before.
///
///   linear(x {S(1)}, weight {S(0)})      ->  all_gather_matmul(x, weight^T) along dim 1
///
/// Whether it does is decided by the mode of the thread (scopes.h): where that is Auto by the sizes alone, if they are
/// small, and by rates that the group's members have measured and agreed on otherwise.
struct OverlappedCall {
  size_t left; // operands, by number
  size_t right;
  std::optional<size_t> bias;
  bool transposes_right = false;   // of linear, which keeps it so
  bool adds_bias_after = false;    // it is no row of columns
  PreparedCall::Moves other_moves; // as PreparedCall::moves, without that of `left`
  std::shared_ptr<Group> group;
  GatherMatmulOptions gather;
  OverlapCase overlap;
  int64_t mesh_dim;
  bool never_pays; // for want of bytes or of peers: nothing is measured

  std::optional<OverlapChoice> choice; // by measured rates, once they are asked for
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
