#include "weft/graph/exec/manifest.h"

#include "weft/core/dtype_text.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <array>
#include <fstream>
#include <sstream>

namespace weft::graph {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "weft sharded program";
constexpr int64_t kVersion = 1;
constexpr std::array<std::pair<std::string_view, NumberKind>, 3> kNumbers = {
    {{"int", NumberKind::Int}, {"float", NumberKind::Float}, {"bool", NumberKind::Bool}}};

Json to_json(const Manifest::Entry& entry) {
  Json json = {{"name", entry.name}};
  if (!entry.type) {
    json["constant"] = true;
    return json;
  }
  if (const auto* number = std::get_if<NumberType>(&*entry.type)) {
    for (const auto& [text, kind] : kNumbers) {
      if (kind == number->kind) {
        json["number"] = text;
      }
    }
    if (!number->expression.empty()) {
      json["expression"] = number->expression;
    }
    return json;
  }
  const auto& tensor = std::get<TensorType>(*entry.type);
  json["dtype"] = dtype_text(tensor.dtype);
  json["sizes"] = Json::array();
  for (const auto& size : tensor.sizes) {
    json["sizes"].push_back(size.is_number() ? Json(size.number()) : Json(size.to_string()));
  }
  if (entry.layout) {
    json["layout"] = entry.layout->to_string();
  }
  return json;
}

/// What is read of a file, with errors that say where.
class ManifestReader {
 public:
  ManifestReader(const std::string& text, const std::string& name) : name_(name) {
    try {
      root_ = Json::parse(text);
    } catch (const nlohmann::json::exception& error) {
      fail(c10::str("JSON is required, but: ", error.what()));
    }
    check(root_.is_object() && root_.value("format", Json()) == kFormat, c10::str("no \"format\": \"", kFormat, "\""));
    check(
        root_.value("version", Json()) == kVersion,
        c10::str("version ", kVersion, " is required, but got ", root_.value("version", Json()).dump()));
  }

  Manifest read() {
    Manifest manifest;
    try {
      if (root_.contains("mesh")) {
        manifest.mesh = DeviceMesh::parse(root_.at("mesh").get<std::string>());
      }
      manifest.rank_files = root_.at("ranks").get<std::vector<std::string>>();
      for (const auto& [key, entries] :
           {std::pair("inputs", &manifest.inputs), std::pair("outputs", &manifest.outputs)}) {
        for (const auto& json : root_.at(key)) {
          entries->push_back(entry(json));
        }
      }
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    }
    const auto ranks = manifest.mesh ? manifest.mesh->size() : 1;
    check(
        static_cast<int64_t>(manifest.rank_files.size()) == ranks,
        c10::str(ranks, " ranks are required, but got ", manifest.rank_files.size()));
    for (const auto& file : manifest.rank_files) {
      check(
          file.find('/') == std::string::npos && !file.empty(),
          "a file of the same folder is required, but got " + file);
    }
    for (const auto* entries : {&manifest.inputs, &manifest.outputs}) {
      for (const auto& each : *entries) {
        check_layout(each, manifest);
      }
    }
    return manifest;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    TORCH_CHECK_VALUE(false, "[Manifest] ", name_, " is not what `weft shard` writes: ", what, ".");
  }
  void check(bool condition, const std::string& what) const {
    if (!condition) {
      fail(what);
    }
  }

  Manifest::Entry entry(const Json& json) const {
    Manifest::Entry entry{.name = json.at("name").get<std::string>(), .type = {}, .layout = {}};
    if (json.contains("number")) {
      for (const auto& [text, kind] : kNumbers) {
        if (json.at("number") == text) {
          entry.type = NumberType{kind, json.value("expression", std::string())};
        }
      }
      check(entry.type.has_value(), entry.name + " is no kind of number: " + json.at("number").dump());
    } else if (json.contains("dtype")) {
      Sizes sizes;
      for (const auto& size : json.at("sizes")) {
        sizes.push_back(size.is_string() ? Size::parse(size.get<std::string>()) : Size(size.get<int64_t>()));
      }
      entry.type = contiguous_type(parse_dtype(json.at("dtype").get<std::string>()), std::move(sizes));
      if (json.contains("layout")) {
        entry.layout = Layout::parse(json.at("layout").get<std::string>());
      }
    } else {
      check(json.value("constant", false), entry.name + " is no tensor, no number and no constant");
    }
    return entry;
  }

  /// Whoever cuts or joins tensors goes by it.
  void check_layout(const Manifest::Entry& entry, const Manifest& manifest) const {
    if (!entry.type || !std::holds_alternative<TensorType>(*entry.type)) {
      return;
    }
    check(entry.layout.has_value() == manifest.mesh.has_value(), entry.name + " needs a layout, as there is a mesh");
    if (entry.layout) {
      check(
          entry.layout->ndim() == manifest.mesh->ndim(),
          c10::str(entry.name, " lies as ", *entry.layout, " on ", *manifest.mesh));
      entry.layout->normalized(std::get<TensorType>(*entry.type).dim());
    }
  }

  std::string name_;
  Json root_;
};

} // namespace

std::string Manifest::to_json() const {
  Json json = {{"format", kFormat}, {"version", kVersion}};
  if (mesh) {
    json["mesh"] = mesh->to_string();
  }
  json["ranks"] = rank_files;
  for (const auto& [key, entries] : {std::pair("inputs", &inputs), std::pair("outputs", &outputs)}) {
    json[key] = Json::array();
    for (const auto& entry : *entries) {
      json[key].push_back(graph::to_json(entry));
    }
  }
  return json.dump(/*indent=*/2) + "\n";
}

Manifest Manifest::parse(const std::string& text, const std::string& name) {
  return ManifestReader(text, name).read();
}

Manifest Manifest::load(const std::string& folder) {
  const auto path = folder + "/" + kFile;
  std::ifstream file(path);
  TORCH_CHECK_VALUE(
      file.good(), "[Manifest] a folder that `weft shard` wrote is required, but ", path, " cannot be read.");
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

Manifest manifest_of(const Program& program) {
  Manifest manifest;
  manifest.mesh = program.mesh;
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::User) {
      continue;
    }
    if (input.constant) {
      manifest.inputs.push_back({input.value == nullptr ? "" : input.value->name(), std::nullopt, std::nullopt});
    } else {
      manifest.inputs.push_back({input.value->name(), input.value->type, input.value->layout});
    }
  }
  for (const auto& output : program.outputs) {
    if (output.kind != OutputKind::User) {
      continue;
    }
    Manifest::Entry entry{.name = "output_" + std::to_string(manifest.outputs.size()), .type = {}, .layout = {}};
    if (!output.constant) {
      const auto* value = program.graph->return_node()->operand(output.operand);
      entry.type = value->type;
      entry.layout = value->layout;
    }
    manifest.outputs.push_back(std::move(entry));
  }
  return manifest;
}

} // namespace weft::graph
