#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace weft {

/// A strategy of a rule, and what is wrong with it.
struct CheckedStrategy {
  std::string text;    // "S(0) R -> S(0)"
  std::string problem; // empty if the strategy is right
};

/// Tries every strategy that the operator's rule allows for a call, on ranks of a 1-D mesh: gives the operator what each
/// rank would hold of the plain, global arguments, puts the results together as the strategy says, and compares them with
/// those of the global call. Partial arguments are random terms. No rank runs: it takes one thread and no communication.
///
///   register_rule("mylib::softmax", {"([a,b])->([a,b])"});
///   check_rule(op, {x}, 2)   // S(0) -> S(0): right; S(1) -> S(1): output 0 of rank 0 is wrong at [0, 0]: ...
///
/// Raises if the operator has no rule for the call.
std::vector<CheckedStrategy> check_rule(
    const c10::OperatorHandle& op,
    const std::vector<c10::IValue>& arguments,
    int64_t ranks);

} // namespace weft
