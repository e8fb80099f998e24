#pragma once

#include "weft/comm/group.h"

#include <ATen/core/ivalue.h>

#include <string_view>

namespace weft {

/// A functional collective that was started on a group, and its result.
struct StartedCollective {
  at::Tensor output;
  Pending pending;
};

/// An operator of torch's functional collectives (`_c10d_functional`) on one of Weft's groups. The results are as torch
/// defines them:
///
///   all_reduce(x, op, group)                       the reduction of the x of all members
///   all_gather_into_tensor(x, n, group)            the x of all members, concatenated along dim 0
///   reduce_scatter_tensor(x, op, n, group)         this member's n-th of the reduction along dim 0
///   all_to_all_single(x, outputs, inputs, group)   slices of dim 0 of lengths `inputs`, slice i goes to member i
///   broadcast(x, source, group)                    the x of member `source`
///   *_coalesced                                    the same for each tensor of a list
struct FunctionalCollective {
  const char* name;
  /// `input` is one tensor, and `arguments` are all arguments of the operator.
  StartedCollective (*start)(Group& group, const at::Tensor& input, c10::ArrayRef<c10::IValue> arguments);
};

/// The collective of this operator ("_c10d_functional::all_reduce"), or nullptr.
const FunctionalCollective* find_functional_collective(std::string_view op);

/// The names of all of them, for error messages.
std::string functional_collective_names();

} // namespace weft
