#pragma once

#include "weft/rules/rule.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>

namespace weft {

/// An operator's rule, and whether it holds for the whole call or for each element of its lists (foreach, fused
/// optimizers): the i-th tensors of all lists, and the tensors that are in none.
struct RuleEntry {
  RuleFunction rule;
  bool per_element = false;
};

/// Rules by operator. A name stands for all overloads of an operator, in-place and out= forms included: "add" is
/// aten::add.Tensor, aten::add_.Tensor, aten::add.out, aten::add.Scalar, and by element aten::_foreach_add.List. Their
/// stored outputs are the caller's matter: a rule sees the functional form.
class RuleRegistry {
 public:
  /// All rules, made when first asked for.
  static const RuleRegistry& instance();

  /// The rule for an aten operator's schema name ("aten::add_"); nothing where there is none.
  const RuleEntry* find(std::string_view operator_name) const;

  void add(std::initializer_list<std::string_view> names, const RuleFunction& rule);
  /// A rule for each element of the operator's lists.
  void add_per_element(std::initializer_list<std::string_view> names, const RuleFunction& rule);
  std::vector<std::string> names() const;

 private:
  std::unordered_map<std::string, RuleEntry> rules_;
};

/// The families, each in a file of its name.
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
