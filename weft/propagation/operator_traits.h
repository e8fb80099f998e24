#pragma once

#include "weft/propagation/decomposition.h"
#include "weft/propagation/operator_schema.h"
#include "weft/rules/registry.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// Properties of an operator, computed once.
struct OperatorTraits {
  explicit OperatorTraits(const c10::OperatorHandle& op);

  /// Finds the rule again: the user may have registered another one. A registered rule is asked before a decomposition.
  void find_rule(const c10::OperatorHandle& op);

  OperatorSchema schema;
  const RuleEntry* rule = nullptr;              // nullptr: the inputs are replicated
  const Decomposition* decomposition = nullptr; // nullptr: the operator always runs by its rule
};

} // namespace weft
