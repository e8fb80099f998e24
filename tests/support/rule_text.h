#pragma once

#include "weft/rules/registry.h"

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

namespace weft::testing {

using Ints = std::vector<int64_t>;
using Arguments = std::map<std::string, c10::IValue>;

/// Stands for a tensor that a list of optional ones does not hold.
inline const Ints kAbsent = {-1};

/// A call of an operator with tensors of these shapes, in the order of its arguments; a tensor list takes all that are
/// left but for the tensors after it, and several lists share them. Other arguments are given by name or have their
/// defaults.
///
///   RuleCall("aten::sum.dim_IntList", {{5, 4}}, {{"dim", Ints{1}}})
class RuleCall {
 public:
  RuleCall(const std::string& op_with_overload, std::vector<Ints> shapes, const Arguments& arguments = {});

  /// Valid as long as this is.
  OpCall call() const;
  /// By the registry.
  std::optional<Rule> rule() const;

 private:
  const c10::FunctionSchema* schema_;
  std::vector<Ints> shapes_;
  std::vector<c10::IValue> arguments_;
  std::vector<Operand> operands_;
  std::vector<OpCall::Range> ranges_;
};

/// The rule of such a call as text; "none" where the call has none.
std::string rule_text(const std::string& op_with_overload, std::vector<Ints> shapes, const Arguments& arguments = {});

/// As rule_text, without what follows the dims: "([a,b])->([b,a])".
std::string mapping_text(
    const std::string& op_with_overload,
    std::vector<Ints> shapes,
    const Arguments& arguments = {});

} // namespace weft::testing
