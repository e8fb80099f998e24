#include "weft/rules/named_dims.h"

namespace weft {

std::vector<Rule::Dims> dims_by_name(
    const OpCall& call,
    const std::vector<std::pair<std::string_view, Rule::Dims>>& named) {
  std::vector<Rule::Dims> all;
  for (const auto& operand : call.operands()) {
    all.emplace_back(operand.sizes.size());
  }
  for (const auto& [name, dims] : named) {
    if (const auto operand = call.operand_of(name)) {
      all[*operand] = dims;
    }
  }
  return all;
}

std::vector<int64_t> operands_by_name(const OpCall& call, std::initializer_list<std::string_view> names) {
  std::vector<int64_t> operands;
  for (const auto name : names) {
    if (const auto operand = call.operand_of(name)) {
      operands.push_back(*operand);
    }
  }
  return operands;
}

} // namespace weft
