#include "weft/graph/parallelize/keyword_values.h"

#include "weft/core/json_depth.h"

#include <nlohmann/json.hpp>

namespace weft::graph {

namespace {

using nlohmann::json;

size_t count_leaves(const json& spec) {
  if (spec.at("type").is_null()) {
    return 1;
  }
  size_t count = 0;
  for (const auto& child : spec.at("children_spec")) {
    count += count_leaves(child);
  }
  return count;
}

/// The names of a call's flat inputs; an empty name for what is no tensor.
std::vector<std::string> input_names(const json& entry, const Program& program) {
  std::vector<std::string> names;
  if (entry.at("fqn") == "") {
    for (const auto& input : program.inputs) {
      if (input.kind == InputKind::User) {
        names.push_back(input.value == nullptr ? "" : input.value->name());
      }
    }
    return names;
  }
  for (const auto& input : entry.at("signature").at("inputs")) {
    const auto tensor = input.find("as_tensor");
    names.push_back(tensor == input.end() ? "" : tensor->at("name").get<std::string>());
  }
  return names;
}

void add_call(const json& entry, const Program& program, KeywordValues& found) {
  if (entry.at("signature").is_null()) {
    return;
  }
  const auto& text = entry.at("signature").at("in_spec").get_ref<const std::string&>();
  if (too_deep_at(text)) {
    return;
  }
  const auto spec = json::parse(text).at(1); // behind the version
  const auto& given = spec.at("children_spec");
  const auto names = input_names(entry, program);
  // A second call of a module has the path "layer@1".
  const auto& path = entry.at("fqn").get_ref<const std::string&>();
  auto& keywords = found[path.substr(0, path.rfind('@'))];
  auto at = count_leaves(given.at(0));
  const auto& values = given.at(1).at("children_spec");
  const auto keys = json::parse(given.at(1).at("context").get_ref<const std::string&>());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto leaves = count_leaves(values[i]);
    if (leaves == 1 && at < names.size() && !names[at].empty()) {
      keywords[keys.at(i).get<std::string>()].push_back(names[at]);
    }
    at += leaves;
  }
}

} // namespace

KeywordValues keyword_values(const Program& program) {
  KeywordValues found;
  const auto convention = json::parse(program.calling_convention, nullptr, /*allow_exceptions=*/false);
  const auto entries = convention.is_object() ? convention.find("module_call_graph") : convention.end();
  for (const auto& entry : entries == convention.end() ? json::array() : *entries) {
    try {
      add_call(entry, program, found);
    } catch (const json::exception&) {
      // A call that is recorded in another form counts as not recorded.
    }
  }
  return found;
}

} // namespace weft::graph
