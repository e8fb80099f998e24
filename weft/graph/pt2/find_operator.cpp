#include "weft/graph/pt2/find_operator.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

constexpr std::string_view kTorchOps = "torch.ops.";

/// Operators of Python packages that mean the same as one of torch.
const std::map<std::string, FoundOperator>& replacements() {
  static const std::map<std::string, FoundOperator> table = {
      {"torch.ops.transformers.grouped_mm_fallback.default",
       {c10::Dispatcher::singleton().findSchemaOrThrow("aten::_grouped_mm", ""),
        {{"input", "self"}, {"weight", "mat2"}}}},
  };
  return table;
}

/// The name of "torch.ops.aten.add.Tensor"; none if the text is no such name.
std::optional<c10::OperatorName> operator_name(const std::string& text) {
  const auto name_at = text.find('.', kTorchOps.size());
  const auto overload_at = text.rfind('.');
  if (!text.starts_with(kTorchOps) || name_at == std::string::npos || overload_at <= name_at) {
    return std::nullopt;
  }
  const auto name = text.substr(kTorchOps.size(), name_at - kTorchOps.size()) +
      "::" + text.substr(name_at + 1, overload_at - name_at - 1);
  const auto overload = text.substr(overload_at + 1);
  return c10::OperatorName(name, overload == "default" ? "" : overload);
}

bool is_missing(const std::string& target) {
  const auto name = operator_name(target);
  return name && !name->name.starts_with("higher_order::") && replacements().count(target) == 0 &&
      !c10::Dispatcher::singleton().findSchema(*name);
}

/// "torch.ops.a.b.default, torch.ops.c.d.default"
std::string missing_operators(const JsonField& nodes) {
  std::vector<std::string> names;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto& target = nodes[i]["target"].text();
    const auto name = target.substr(0, 200);
    if (is_missing(target) && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return c10::Join(", ", names);
}

} // namespace

FoundOperator find_operator(const JsonField& target, const JsonField& nodes) {
  const auto& text = target.text();
  if (const auto replaced = replacements().find(text); replaced != replacements().end()) {
    return replaced->second;
  }
  const auto name = operator_name(text);
  target.check(
      name.has_value(), "torch.ops.<library>.<operator>.<overload> is required, but got \"", text.substr(0, 200), "\"");
  const auto found = c10::Dispatcher::singleton().findSchema(*name);
  if (!found) {
    target.check(
        false, "registered operators are required, but these are not: ", missing_operators(nodes),
        ". A file has no code of operators. Load the library that defines them before the program is read (--library). "
        "Of "
        "those that Python code defines (torch.library), none can be loaded: before the program is saved, replace them "
        "by "
        "run_decompositions() with a table that has them, or choose a setting of the model that uses torch's own");
  }
  return {*found};
}

} // namespace weft::graph
