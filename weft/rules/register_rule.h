#pragma once

#include "weft/rules/registry.h"

#include <ATen/core/operator_name.h>

namespace weft {

/// Rules for operators of any library, and other rules for ATen's. A rule is a function of a call, or a text
/// (RulePattern) that serves calls of the ndim it shows; of several texts the first that fits a call counts.
///
///   TORCH_LIBRARY(mylib, m) {
///     m.def("scale(Tensor x, Tensor by) -> Tensor");
///   }
///   const bool kScale = weft::register_rule("mylib::scale", {"([a,b],[b])->([a,b]) linear={0}"});
///
/// The name is the operator's with its overload ("mylib::scale.out"); the operator must be known. A rule serves that
/// overload alone, in the form in which it is called: no rule of the functional form applies to an in-place one. It
/// takes the place of Weft's own rule or of one that was registered before: later calls are decided anew, on every
/// thread. All ranks must register the same rules before the calls that they are for.
///
/// Returns whether it replaced a registered rule.
bool register_rule(const std::string& op, RuleFunction rule);
bool register_rule(const std::string& op, const std::vector<std::string>& texts);

/// Removes a registered rule; returns whether there was one.
bool unregister_rule(const std::string& op);

/// The registered rule of an operator, or nullptr. It stays valid for the life of the process.
const RuleEntry* find_registered_rule(const c10::OperatorName& op);

/// Calls a function after each change of an operator's registered rule.
void on_rule_change(void (*changed)(const c10::OperatorName& op));

} // namespace weft
