#include "weft/graph/ir/module_stack.h"

#include <algorithm>
#include <array>

namespace weft::graph {

namespace {

// The key that torch.export writes if a node has no stack.
constexpr std::string_view kNoModule = "_empty_nn_module_stack_from_metadata_hook";

/// Splits "key,path,type" at commas, except for commas inside of brackets, which belong to a name.
std::array<std::string_view, 3> split(std::string_view entry) {
  std::array<std::string_view, 3> fields;
  size_t field = 0;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < entry.size(); ++i) {
    depth += entry[i] == '[' || entry[i] == '(' ? 1 : 0;
    depth -= entry[i] == ']' || entry[i] == ')' ? 1 : 0;
    if (entry[i] == ',' && depth == 0 && field < 2) {
      fields[field++] = entry.substr(begin, i - begin);
      begin = i + 1;
    }
  }
  fields[field] = entry.substr(begin);
  return fields;
}

} // namespace

std::vector<ModuleCall> module_calls(const Origin& origin) {
  std::string_view text;
  for (const auto& [key, value] : origin.metadata) {
    if (key == "nn_module_stack") {
      text = value;
    }
  }
  std::vector<ModuleCall> calls;
  while (!text.empty()) {
    const auto entry = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    const auto [key, path, type] = split(entry);
    if (key != kNoModule) {
      // The second and later calls of a module end with @ and the number of the call.
      calls.push_back({path.substr(0, path.find('@')), type, entry});
    }
  }
  return calls;
}

std::vector<std::pair<std::string, std::string>> module_stack(const Origin& origin) {
  std::vector<std::pair<std::string, std::string>> stack;
  for (const auto& call : module_calls(origin)) {
    stack.emplace_back(call.path, call.type);
  }
  return stack;
}

} // namespace weft::graph
