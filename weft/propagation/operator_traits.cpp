#include "weft/propagation/operator_traits.h"

namespace weft {

OperatorTraits::OperatorTraits(const c10::OperatorHandle& op)
    : schema(op.schema()),
      rule(RuleRegistry::instance().find(op.schema().name())),
      decomposition(find_decomposition(c10::toString(op.operator_name()))) {}

} // namespace weft
