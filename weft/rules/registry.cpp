#include "weft/rules/registry.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace weft {

const RuleRegistry& RuleRegistry::instance() {
  static const auto* registry = [] {
    auto* all = new RuleRegistry();
    add_pointwise_rules(*all);
    add_matmul_rules(*all);
    add_reduction_rules(*all);
    add_view_rules(*all);
    add_splitting_rules(*all);
    add_softmax_rules(*all);
    add_joining_rules(*all);
    add_indexing_rules(*all);
    add_creation_rules(*all);
    add_sorting_rules(*all);
    add_foreach_rules(*all);
    add_norm_rules(*all);
    add_embedding_rules(*all);
    add_loss_rules(*all);
    add_attention_rules(*all);
    add_convolution_rules(*all);
    add_spatial_rules(*all);
    add_glu_rules(*all);
    add_recurrent_rules(*all);
    return all;
  }();
  return *registry;
}

const RuleEntry* RuleRegistry::find(std::string_view operator_name) const {
  constexpr std::string_view kNamespace = "aten::";
  if (!operator_name.starts_with(kNamespace)) {
    return nullptr;
  }
  operator_name.remove_prefix(kNamespace.size());
  auto found = rules_.find(std::string(operator_name));
  if (found == rules_.end() && operator_name.ends_with('_')) {
    operator_name.remove_suffix(1);
    found = rules_.find(std::string(operator_name));
  }
  return found == rules_.end() ? nullptr : &found->second;
}

void RuleRegistry::add(std::initializer_list<std::string_view> names, const RuleFunction& rule) {
  for (const auto name : names) {
    TORCH_INTERNAL_ASSERT(rules_.emplace(name, RuleEntry{rule}).second, "aten::", name, " has two rules");
  }
}

void RuleRegistry::add_per_element(std::initializer_list<std::string_view> names, const RuleFunction& rule) {
  for (const auto name : names) {
    TORCH_INTERNAL_ASSERT(
        rules_.emplace(name, RuleEntry{rule, /*per_element=*/true}).second, "aten::", name, " has two rules");
  }
}

std::vector<std::string> RuleRegistry::names() const {
  std::vector<std::string> result;
  for (const auto& [name, rule] : rules_) {
    result.push_back(name);
  }
  std::sort(result.begin(), result.end());
  return result;
}

} // namespace weft
