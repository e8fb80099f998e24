#include "weft/propagation/operator_traits.h"

#include "weft/rules/register_rule.h"

namespace weft {

OperatorTraits::OperatorTraits(const c10::OperatorHandle& op) : schema(op.schema()) {
  find_rule(op);
}

void OperatorTraits::find_rule(const c10::OperatorHandle& op) {
  rule = find_registered_rule(op.operator_name());
  if (rule != nullptr) {
    decomposition = nullptr;
    return;
  }
  rule = RuleRegistry::instance().find(op.schema().name());
  decomposition = find_decomposition(c10::toString(op.operator_name()));
}

} // namespace weft
