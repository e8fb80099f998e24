#pragma once

#include "weft/propagation/decomposition.h"
#include "weft/propagation/operator_schema.h"
#include "weft/rules/registry.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

/// What is known of an operator: worked out once.
struct OperatorTraits {
  explicit OperatorTraits(const c10::OperatorHandle& op);

  OperatorSchema schema;
  const RuleEntry* rule;              // none: the replicate fallback
  const Decomposition* decomposition; // none: always by the rule
};

} // namespace weft
