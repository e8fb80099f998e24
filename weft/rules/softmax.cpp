#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

namespace weft {

void add_softmax_rules(RuleRegistry& registry) {
  registry.add(
      {"_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax", "special_softmax", "special_log_softmax"},
      along_dim("dim"));
  // Linear in the gradient, which is the first operand.
  registry.add({"_softmax_backward_data", "_log_softmax_backward_data"}, along_dim("dim", 1, {{0}}));
}

} // namespace weft
