#include "weft/rules/rule.h"

#include <algorithm>

namespace weft {

namespace {

std::string factor_text(Rule::Factor factor) {
  auto text = std::string(1, static_cast<char>('a' + factor % 26));
  return factor < 26 ? text : text + std::to_string(factor / 26);
}

std::string dims_text(const Rule::Dims& dims) {
  std::string text = "[";
  for (size_t d = 0; d < dims.size(); ++d) {
    text += d == 0 ? "" : ",";
    if (dims[d].empty()) {
      text += "-";
    } else if (dims[d].size() == 1) {
      text += factor_text(dims[d][0]);
    } else {
      text += "(";
      for (size_t i = 0; i < dims[d].size(); ++i) {
        text += (i == 0 ? "" : " ") + factor_text(dims[d][i]);
      }
      text += ")";
    }
  }
  return text + "]";
}

std::string set_text(const std::vector<int64_t>& numbers) {
  std::string text = "{";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  }
  return text + "}";
}

std::string factors_text(const std::vector<Rule::Factor>& factors) {
  std::string text = "{";
  for (size_t i = 0; i < factors.size(); ++i) {
    text += (i == 0 ? "" : ",") + factor_text(factors[i]);
  }
  return text + "}";
}

std::string tensors_text(const std::vector<Rule::Dims>& tensors) {
  std::string text = "(";
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += (i == 0 ? "" : ",") + dims_text(tensors[i]);
  }
  return text + ")";
}

std::string placements_text(const std::vector<Placement>& placements) {
  std::string text;
  for (size_t i = 0; i < placements.size(); ++i) {
    text += (i == 0 ? "" : ",") + placements[i].to_string();
  }
  return text;
}

/// "strategies={S(0),R->S(0)}{R,S(1)->S(1)}".
std::string listed_text(const std::vector<Rule::Listed>& listed) {
  std::string text = "strategies=";
  for (const auto& each : listed) {
    text += "{" + placements_text(each.inputs) + "->" + placements_text(each.outputs) + "}";
  }
  return text;
}

} // namespace

bool Rule::has(const Dims& dims, Factor factor) {
  return std::any_of(
      dims.begin(), dims.end(), [&](const Dim& dim) { return std::find(dim.begin(), dim.end(), factor) != dim.end(); });
}

bool Rule::is_unsharded(Factor factor) const {
  return std::find(unsharded.begin(), unsharded.end(), factor) != unsharded.end();
}

bool Rule::is_reduced(Factor factor) const {
  return std::none_of(outputs.begin(), outputs.end(), [&](const Dims& dims) { return has(dims, factor); });
}

int64_t Rule::size_of(const Dim& dim) const {
  int64_t size = 1;
  for (const auto factor : dim) {
    size *= sizes[factor];
  }
  return size;
}

std::string Rule::to_string() const {
  if (sizes.empty() && !listed.empty()) {
    return listed_text(listed);
  }
  auto text = tensors_text(inputs) + "->" + tensors_text(outputs);
  std::string reduced;
  std::string not_sharded;
  for (size_t f = 0; f < sizes.size(); ++f) {
    const auto factor = static_cast<Factor>(f);
    const auto is_in = [&](const Dims& dims) { return has(dims, factor); };
    if (is_unsharded(factor)) {
      not_sharded += (not_sharded.empty() ? "" : ",") + factor_text(factor);
    } else if (
        is_reduced(factor) && sizes[f] > 1 && !outputs.empty() && std::any_of(inputs.begin(), inputs.end(), is_in)) {
      reduced += (reduced.empty() ? "" : ",") + factor_text(factor);
    }
  }
  text += reduced.empty() ? "" : " " + std::string(weft::to_string(reduction)) + "={" + reduced + "}";
  text += not_sharded.empty() ? "" : " unsharded={" + not_sharded + "}";
  text += filled.empty() ? "" : " filled=" + factors_text(filled);
  text += added.empty() ? "" : " added=" + set_text(added);
  const auto linear_name = linear_in_any_op ? " linear*="
      : linear_op                           ? " linear(" + std::string(weft::to_string(*linear_op)) + ")="
                                            : std::string(" linear=");
  for (size_t i = 0; i < linear.size(); ++i) {
    text += i == 0 ? linear_name : "";
    text += set_text(linear[i]);
  }
  text += increasing.empty() ? "" : " increasing=" + set_text(increasing);
  text += decreasing.empty() ? "" : " decreasing=" + set_text(decreasing);
  text += unread.empty() ? "" : " unread=" + set_text(unread);
  text += of_any_layout.empty() ? "" : " any=" + set_text(of_any_layout);
  text += updated.empty() ? "" : " updated=" + set_text(updated);
  text += constant.empty() ? "" : " constant=" + set_text(constant);
  for (const auto& argument : size_arguments) {
    text += " " + argument.name + "=" + dims_text(argument.dims);
  }
  if (lookup) {
    text += " lookup={" + std::to_string(lookup->operand) + " in " + factor_text(lookup->factor) + "}";
  }
  text += listed.empty() ? "" : " " + listed_text(listed);
  return text;
}

} // namespace weft
