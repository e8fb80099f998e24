#pragma once

#include "weft/tensor/dispatch/call_overlap.h"
#include "weft/tensor/impl/prepared_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// How a matmul overlaps with a collective if its CallOverlap says so: with gathering its left operand, whose rows are
/// multiplied as they arrive, or with scattering its result, whose rows are sent as they are done
/// (weft/overlap/fused_matmul.h). The operand or result is sharded along a dim that is not summed over. Other operands
/// are redistributed before.
///
///   linear(x {S(1)}, weight {S(0)})      ->  all_gather_matmul(x, weight^T) along dim 1
struct OverlappedCall {
  size_t left = 0; // operands, by number
  size_t right = 1;
  std::optional<size_t> bias = std::nullopt;
  bool transposes_right = false;        // of linear, whose weight is stored transposed
  bool adds_bias_after = false;         // the bias is not a vector of one number per column
  PreparedCall::Moves other_moves = {}; // PreparedCall::moves without that of `left`
  std::shared_ptr<Group> group;
  int64_t dim;  // the tensor dim that is gathered or scattered
  int64_t size; // the global size of that dim
  CallOverlap overlap;
};

/// nullptr for a call that cannot overlap. The same on every rank.
std::shared_ptr<OverlappedCall> find_overlap(
    const c10::OperatorName& op,
    const PreparedCall& call,
    c10::ArrayRef<Layout> targets);

/// Whether this thread overlaps the call now. Every rank of the group must call it, because it may measure rates.
bool runs_overlapped(const PreparedCall& call);

/// How the call is run now, with the current overlap decision.
std::shared_ptr<const Explanation> current_explanation(const PreparedCall& call);

/// The local result. `locals` are the local tensors of the operands, of which all but `left` are redistributed already;
/// `arguments` are the arguments of the call.
at::Tensor run_overlapped(
    const OverlappedCall& overlapped,
    const std::string& op,
    c10::ArrayRef<at::Tensor> locals,
    c10::ArrayRef<c10::IValue> arguments);

} // namespace weft
