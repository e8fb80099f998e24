#pragma once

#include "weft/rules/rule.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weft {

/// The rule of an operator, and whether it applies to each element of the operator's lists instead of to the call as
/// one (foreach, fused optimizers). An element is the i-th tensors of all lists, together with the tensors outside of
/// lists.
struct RuleEntry {
  RuleFunction rule;
  bool per_element = false;
  /// Registered by the user (register_rule): what it says is checked against the results.
  bool is_registered = false;
};

/// Rules by operator. A name covers all overloads of an operator with in-place and out= forms: "add" is
/// aten::add.Tensor, aten::add_.Tensor, aten::add.out, aten::add.Scalar, and per element aten::_foreach_add.List. A
/// rule sees the functional form; the caller handles the output tensors.
class RuleRegistry {
 public:
  /// All rules, made at the first call.
  static const RuleRegistry& instance();

  /// The rule for an aten operator's schema name ("aten::add_"), or nullptr.
  const RuleEntry* find(std::string_view operator_name) const;

  void add(std::initializer_list<std::string_view> names, const RuleFunction& rule);
  /// Adds a rule for each element of the operator's lists.
  void add_per_element(std::initializer_list<std::string_view> names, const RuleFunction& rule);
  std::vector<std::string> names() const;

 private:
  std::unordered_map<std::string, RuleEntry> rules_;
};

/// The families of operators, each in a file of its name.
void add_pointwise_rules(RuleRegistry& registry);
void add_matmul_rules(RuleRegistry& registry);
void add_reduction_rules(RuleRegistry& registry);
void add_view_rules(RuleRegistry& registry);
void add_splitting_rules(RuleRegistry& registry);
void add_softmax_rules(RuleRegistry& registry);
void add_joining_rules(RuleRegistry& registry);
void add_indexing_rules(RuleRegistry& registry);
void add_creation_rules(RuleRegistry& registry);
void add_sorting_rules(RuleRegistry& registry);
void add_foreach_rules(RuleRegistry& registry);
void add_norm_rules(RuleRegistry& registry);
void add_embedding_rules(RuleRegistry& registry);
void add_loss_rules(RuleRegistry& registry);
void add_attention_rules(RuleRegistry& registry);
void add_convolution_rules(RuleRegistry& registry);
void add_spatial_rules(RuleRegistry& registry);
void add_glu_rules(RuleRegistry& registry);
void add_recurrent_rules(RuleRegistry& registry);

} // namespace weft
