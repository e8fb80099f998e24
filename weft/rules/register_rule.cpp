#include "weft/rules/register_rule.h"

#include "weft/rules/rule_pattern.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <mutex>
#include <shared_mutex>

namespace weft {

namespace {

/// Ranks that are threads register and ask at the same time.
struct RegisteredRules {
  std::shared_mutex mutex;
  std::unordered_map<std::string, const RuleEntry*> by_name;
  std::vector<std::unique_ptr<const RuleEntry>> all; // also the replaced ones, which running calls may still use
  std::vector<void (*)(const c10::OperatorName&)> observers;
};

RegisteredRules& rules() {
  static auto* all = new RegisteredRules();
  return *all;
}

/// "mylib::scale" or "mylib::scale.out".
c10::OperatorName name_of(const std::string& op) {
  const auto dot = op.find('.', op.find("::") == std::string::npos ? 0 : op.find("::"));
  return dot == std::string::npos ? c10::OperatorName(op, "")
                                  : c10::OperatorName(op.substr(0, dot), op.substr(dot + 1));
}

c10::OperatorHandle checked_operator(const std::string& op) {
  const auto found = c10::Dispatcher::singleton().findSchema(name_of(op));
  TORCH_CHECK_VALUE(
      found.has_value(), "[register_sharding] the name of a known operator is required, but got '", op,
      "'. Load the library that defines it first, and name the overload: 'mylib::scale', 'aten::add.Tensor'.");
  return *found;
}

void tell(const c10::OperatorName& name) {
  std::vector<void (*)(const c10::OperatorName&)> observers;
  {
    const std::shared_lock lock(rules().mutex);
    observers = rules().observers;
  }
  for (const auto& changed : observers) {
    changed(name);
  }
}

} // namespace

bool register_rule(const std::string& op, RuleFunction rule) {
  const auto name = checked_operator(op).operator_name();
  bool replaces = false;
  {
    const std::unique_lock lock(rules().mutex);
    auto entry = std::make_unique<RuleEntry>(RuleEntry{std::move(rule), /*per_element=*/false, /*is_registered=*/true});
    auto& place = rules().by_name[c10::toString(name)];
    replaces = place != nullptr;
    place = entry.get();
    rules().all.push_back(std::move(entry));
  }
  tell(name);
  return replaces;
}

bool register_rule(const std::string& op, const std::vector<std::string>& texts) {
  const auto& schema = checked_operator(op).schema();
  TORCH_CHECK_VALUE(!texts.empty(), "[register_sharding] a rule is required for ", op, ", but got none.");
  std::vector<RulePattern> patterns;
  for (const auto& text : texts) {
    patterns.push_back(RulePattern::parse(text));
    patterns.back().check(schema);
  }
  return register_rule(op, [patterns = std::move(patterns)](const OpCall& call) -> std::optional<Rule> {
    for (const auto& pattern : patterns) {
      if (auto rule = pattern.rule(call)) {
        return rule;
      }
    }
    return std::nullopt;
  });
}

bool unregister_rule(const std::string& op) {
  const auto name = name_of(op);
  {
    const std::unique_lock lock(rules().mutex);
    if (rules().by_name.erase(c10::toString(name)) == 0) {
      return false;
    }
  }
  tell(name);
  return true;
}

const RuleEntry* find_registered_rule(const c10::OperatorName& op) {
  const std::shared_lock lock(rules().mutex);
  if (rules().by_name.empty()) {
    return nullptr;
  }
  const auto found = rules().by_name.find(c10::toString(op));
  return found == rules().by_name.end() ? nullptr : found->second;
}

void on_rule_change(void (*changed)(const c10::OperatorName& op)) {
  const std::unique_lock lock(rules().mutex);
  rules().observers.push_back(changed);
}

} // namespace weft
