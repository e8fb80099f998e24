#include "weft/graph/ir/module_stack.h"

#include <array>

namespace weft::graph {

namespace {

// What stands in place of a stack where a node has none.
constexpr std::string_view kNoModule = "_empty_nn_module_stack_from_metadata_hook";

/// "key,path,type": at commas, those inside of brackets being part of a name.
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

namespace {

/// Calls fn(key, path, type) for every entry of the stack, outermost first.
template <class Fn>
void for_each_entry(const Origin& origin, const Fn& fn) {
  std::string_view text;
  for (const auto& [key, value] : origin.metadata) {
    if (key == "nn_module_stack") {
      text = value;
    }
  }
  while (!text.empty()) {
    const auto end = text.find(';');
    const auto [key, path, type] = split(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (key != kNoModule) {
      fn(key, path, type);
    }
  }
}

} // namespace

std::vector<std::pair<std::string, std::string>> module_stack(const Origin& origin) {
  std::vector<std::pair<std::string, std::string>> stack;
  for_each_entry(origin, [&](auto /*key*/, auto path, auto type) {
    // A module that is called again has the number of the call behind an @.
    stack.emplace_back(path.substr(0, path.find('@')), type);
  });
  return stack;
}

std::vector<std::string> module_calls(const Origin& origin) {
  std::vector<std::string> calls;
  for_each_entry(
      origin, [&](auto key, auto path, auto /*type*/) { calls.push_back(std::string(key) + ";" + std::string(path)); });
  return calls;
}

} // namespace weft::graph
