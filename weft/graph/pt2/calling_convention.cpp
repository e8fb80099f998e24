#include "weft/graph/pt2/calling_convention.h"

#include "weft/core/json_depth.h"

#include <caffe2/serialize/versions.h>

#include <unordered_set>

namespace weft::graph {

using nlohmann::json;

namespace {

constexpr int kTreeSpecVersion = 1;

json leaf() {
  return {{"type", nullptr}, {"context", nullptr}, {"children_spec", json::array()}};
}
json container(const char* type, const char* context, json children) {
  return {{"type", type}, {"context", context}, {"children_spec", std::move(children)}};
}
std::string spec_text(json spec) {
  return json::array({kTreeSpecVersion, std::move(spec)}).dump();
}

int64_t count_leaves(const json& spec) {
  if (spec.at("type").is_null()) {
    return 1;
  }
  int64_t count = 0;
  for (const auto& child : spec.at("children_spec")) {
    count += count_leaves(child);
  }
  return count;
}

int64_t count_user_inputs(const Program& program) {
  return std::count_if(
      program.inputs.begin(), program.inputs.end(), [](const Input& input) { return input.kind == InputKind::User; });
}
int64_t count_user_outputs(const Program& program) {
  return std::count_if(program.outputs.begin(), program.outputs.end(), [](const Output& output) {
    return output.kind == OutputKind::User;
  });
}

/// Whether the model's own entry has as many inputs and outputs as the program.
bool fits(const json& entry, const Program& program) {
  try {
    const auto leaves = [&](const char* key) {
      const auto& text = entry.at("signature").at(key).get_ref<const std::string&>();
      TORCH_CHECK_VALUE(
          !too_deep_at(text), "[write_pt2] the program's ", key, " must nest at most ", kMaxJsonDepth,
          " lists and objects, but nests more.");
      return count_leaves(json::parse(text).at(1));
    };
    return entry.at("fqn") == "" && leaves("in_spec") == count_user_inputs(program) &&
        leaves("out_spec") == count_user_outputs(program);
  } catch (const json::exception&) {
    return false;
  }
}

json flat_entry(const Program& program) {
  json inputs = json::array();
  for (int64_t i = 0; i < count_user_inputs(program); ++i) {
    inputs.push_back(leaf());
  }
  json outputs = json::array();
  for (int64_t i = 0; i < count_user_outputs(program); ++i) {
    outputs.push_back(leaf());
  }
  const auto arguments = container(
      "builtins.tuple", "null",
      {container("builtins.tuple", "null", std::move(inputs)), container("builtins.dict", "[]", json::array())});
  const auto results = outputs.size() == 1 ? leaf() : container("builtins.tuple", "null", std::move(outputs));
  return {
      {"fqn", ""},
      {"signature",
       {{"inputs", json::array()},
        {"outputs", json::array()},
        {"in_spec", spec_text(arguments)},
        {"out_spec", spec_text(results)},
        {"forward_arg_names", nullptr}}}};
}

/// The user inputs as text. Guards in the file are valid only if this text is unchanged.
std::string user_inputs_text(const Program& program) {
  std::string text;
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::User || input.value == nullptr || !input.value->is_tensor()) {
      continue;
    }
    text += input.value->name() + ":" + c10::toString(input.value->tensor().dtype);
    for (const auto& size : input.value->tensor().sizes) {
      text += " " + size.to_string();
    }
    text += ";";
  }
  return text;
}

/// Drops the signature of an inner module if a value that it names no longer exists.
void drop_stale_signatures(json& entries, const Program& program) {
  std::unordered_set<std::string> names;
  for (const auto* input : program.graph->inputs()) {
    names.insert(input->name());
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    for (const auto* output : node->outputs()) {
      if (output != nullptr) {
        names.insert(output->name());
      }
    }
  }
  const auto is_known = [&names](const json& arguments) {
    return std::all_of(arguments.begin(), arguments.end(), [&names](const json& argument) {
      const auto& value = argument.begin().value();
      const auto name = !value.is_object() ? value.end()
          : value.contains("name")         ? value.find("name")
                                           : value.find("as_name");
      return name != value.end() && name->is_string() && names.count(name->get_ref<const std::string&>()) != 0;
    });
  };
  for (auto& entry : entries) {
    const bool has_signature = entry.is_object() && entry.value("fqn", "") != "" && entry.contains("signature") &&
        entry["signature"].is_object();
    if (has_signature) {
      auto& signature = entry["signature"];
      const bool is_complete = signature.contains("inputs") && signature.contains("outputs") &&
          is_known(signature["inputs"]) && is_known(signature["outputs"]);
      if (!is_complete) {
        signature = nullptr;
      }
    }
  }
}

/// The stored JSON, as far as it fits the program, completed with the missing keys.
json completed(json result, const Program& program) {
  auto& entries = result["module_call_graph"];
  if (!entries.is_array() || entries.empty() || !fits(entries[0], program)) {
    entries = json::array({flat_entry(program)});
  }
  drop_stale_signatures(entries, program);
  if (result.value("user_inputs", "") != user_inputs_text(program)) {
    result["guards_code"] = json::array();
  }
  const auto complete = [&result](const char* key, json value) {
    if (!result.contains(key)) {
      result[key] = std::move(value);
    }
  };
  complete("metadata", json::object());
  complete("treespec_namedtuple_fields", json::object());
  complete("opset_version", {{"aten", caffe2::serialize::kMaxSupportedFileFormatVersion}});
  complete("verifiers", json::array({"TRAINING"}));
  complete("guards_code", json::array());
  return result;
}

} // namespace

std::string read_calling_convention(const JsonField& root, const Program& program) {
  const auto graph_module = root["graph_module"];
  json result = {{"user_inputs", user_inputs_text(program)}};
  const auto keep = [&result](const JsonField& from, const char* key) {
    if (const auto field = from.find(key)) {
      result[key] = field->json();
    }
  };
  keep(graph_module, "module_call_graph");
  keep(graph_module, "metadata");
  keep(graph_module, "treespec_namedtuple_fields");
  keep(root, "opset_version");
  keep(root, "verifiers");
  keep(root, "guards_code");
  return result.dump();
}

json calling_convention_of(const Program& program) {
  try {
    return completed(
        program.calling_convention.empty() ? json::object() : json::parse(program.calling_convention), program);
  } catch (const json::exception& error) {
    TORCH_CHECK_VALUE(
        false, "[write_pt2] a program's calling convention must be empty or JSON as torch.export writes it, but got: ",
        error.what(), ".");
  }
}

} // namespace weft::graph
