#include "weft/graph/deploy/manifest.h"

#include "weft/core/checksum_text.h"
#include "weft/core/dtype_text.h"
#include "weft/files/checked_json.h"
#include "weft/graph/pt2/crc32.h"

#include <c10/util/Exception.h>

#include <array>
#include <fstream>
#include <set>
#include <sstream>

namespace weft::graph {

namespace {

using Json = nlohmann::ordered_json;

constexpr CheckedJson::Kind kKind = {"Manifest", "`weft shard`", "weft sharded program", 2, &crc32};
constexpr std::array<std::pair<std::string_view, NumberKind>, 3> kNumbers = {
    {{"int", NumberKind::Int}, {"float", NumberKind::Float}, {"bool", NumberKind::Bool}}};

Json entry_json(const Manifest::Entry& entry) {
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

std::vector<int64_t> ranks_of(const std::optional<DeviceMesh>& mesh) {
  return mesh ? std::vector<int64_t>(mesh->ranks().begin(), mesh->ranks().end()) : std::vector<int64_t>{0};
}

/// Everything except the checksum.
Json content_of(const Manifest& manifest) {
  auto json = CheckedJson::begin(kKind);
  if (manifest.mesh) {
    json["mesh"] = manifest.mesh->to_string();
  }
  const auto ranks = ranks_of(manifest.mesh);
  json["ranks"] = Json::array();
  for (size_t i = 0; i < manifest.rank_files.size(); ++i) {
    const auto& [name, bytes, digest] = manifest.rank_files[i];
    json["ranks"].push_back(
        {{"rank", ranks.at(i)}, {"file", name}, {"bytes", bytes}, {"digest", checksum_text(digest)}});
  }
  for (const auto& [key, entries] : {std::pair("inputs", &manifest.inputs), std::pair("outputs", &manifest.outputs)}) {
    json[key] = Json::array();
    for (const auto& entry : *entries) {
      json[key].push_back(entry_json(entry));
    }
  }
  return json;
}

/// Reads a manifest, with errors that name the position.
class ManifestReader : CheckedJson {
 public:
  ManifestReader(const std::string& text, const std::string& name) : CheckedJson(kKind, text, name) {}

  Manifest read() const {
    return understood([this] { return content(); }, &content_of);
  }

 private:
  Manifest content() const {
    Manifest manifest;
    const auto& ranks = root().at("ranks");
    if (root().contains("mesh")) {
      manifest.mesh = of_text("mesh", [&] { return DeviceMesh::parse(root().at("mesh").get<std::string>()); });
    }
    check(ranks.is_array(), "\"ranks\" must be a list");
    manifest.rank_files = rank_files(ranks, ranks_of(manifest.mesh));
    for (const auto& [key, entries] :
         {std::pair("inputs", &manifest.inputs), std::pair("outputs", &manifest.outputs)}) {
      for (const auto& json : root().at(key)) {
        entries->push_back(entry(json, manifest.mesh));
      }
    }
    return manifest;
  }

  /// Parses the text under a key; an error names the key.
  template <class Fn>
  std::invoke_result_t<const Fn&> of_text(const std::string& key, const Fn& fn) const {
    try {
      return fn();
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      fail(key + ": " + text.substr(0, text.find_last_not_of('.') + 1));
    }
  }

  /// Checks that the list has every rank once and in order, each with its own file.
  std::vector<Manifest::RankFile> rank_files(const Json& list, const std::vector<int64_t>& ranks) const {
    check(list.size() == ranks.size(), c10::str(ranks.size(), " ranks are required, but got ", list.size()));
    std::vector<Manifest::RankFile> files;
    std::set<std::string> names;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto rank = list[i].at("rank").get<int64_t>();
      check(rank == ranks[i], c10::str("rank ", ranks[i], " is required as entry ", i, ", but got rank ", rank));
      auto name = list[i].at("file").get<std::string>();
      check(
          name.find('/') == std::string::npos && !name.empty() && name != "." && name != "..",
          "a file of the same folder is required, but got " + name);
      check(names.insert(name).second, "a file for each rank is required, but two have " + name);
      files.push_back({std::move(name), list[i].at("bytes").get<uint64_t>(), digest(list[i].at("digest"))});
    }
    return files;
  }

  uint32_t digest(const Json& json) const {
    const auto text = json.get<std::string>();
    const auto digest = parse_checksum(text);
    check(digest.has_value(), "a digest of eight hexadecimal digits is required, but got " + text.substr(0, 80));
    return *digest;
  }

  Manifest::Entry entry(const Json& json, const std::optional<DeviceMesh>& mesh) const {
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
        sizes.push_back(of_text(entry.name, [&] {
          return size.is_string() ? Size::parse(size.get<std::string>()) : Size(size.get<int64_t>());
        }));
      }
      const auto dtype = of_text(entry.name, [&] { return parse_dtype(json.at("dtype").get<std::string>()); });
      entry.type = of_text(entry.name, [&] { return contiguous_type(dtype, sizes); });
      if (json.contains("layout")) {
        entry.layout = of_text(entry.name, [&] { return Layout::parse(json.at("layout").get<std::string>()); });
      }
    } else {
      check(json.value("constant", false), entry.name + " is no tensor, no number and no constant");
    }
    check_layout(entry, mesh);
    return entry;
  }

  /// Sharding and gathering rely on the layout.
  void check_layout(const Manifest::Entry& entry, const std::optional<DeviceMesh>& mesh) const {
    if (!entry.type || !std::holds_alternative<TensorType>(*entry.type)) {
      return;
    }
    check(entry.layout.has_value() == mesh.has_value(), entry.name + " needs a layout, as there is a mesh");
    if (entry.layout) {
      check(
          entry.layout->ndim() == mesh->ndim(), c10::str(entry.name, " has the layout ", *entry.layout, " on ", *mesh));
      of_text(entry.name, [&] { return entry.layout->normalized(std::get<TensorType>(*entry.type).dim()); });
    }
  }
};

} // namespace

std::string Manifest::to_json() const {
  auto json = content_of(*this);
  CheckedJson::add_checksum(kKind, json);
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
