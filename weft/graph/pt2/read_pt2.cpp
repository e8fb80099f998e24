#include "weft/graph/pt2/read_pt2.h"

#include "weft/graph/pt2/calling_convention.h"
#include "weft/graph/pt2/read_graph.h"
#include "weft/graph/pt2/read_signature.h"
#include "weft/graph/pt2/read_weights.h"

namespace weft::graph {

namespace {

constexpr int64_t kSchemaVersion = 8;
constexpr std::string_view kModels = "models/";
constexpr std::string_view kJson = ".json";

std::string without_space(std::string_view text) {
  const auto end = text.find_last_not_of(" \n\r\t");
  return std::string(text.substr(0, end == std::string_view::npos ? 0 : end + 1));
}

void check_format(const Archive& archive) {
  const auto& file = archive.file()->name();
  TORCH_CHECK_VALUE(
      !archive.has("serialized_exported_program.json"), "[read_pt2] ", file,
      ": the file is of an older form than torch 2.11 writes. Load it with torch.export.load and save it again.");
  TORCH_CHECK_VALUE(
      without_space(archive.record("archive_format")) == "pt2", "[read_pt2] ", file,
      ": archive_format: an exported program is required, which has \"pt2\" here.");
  if (archive.has("archive_version")) {
    const auto version = without_space(archive.record("archive_version"));
    TORCH_CHECK_VALUE(
        version == "0", "[read_pt2] ", file, ": archive_version: 0 is required, but got ", version.substr(0, 20), ".");
  }
  if (archive.has("byteorder")) {
    const auto order = without_space(archive.record("byteorder"));
    TORCH_CHECK_VALUE(
        order == "little", "[read_pt2] ", file, ": byteorder: weights of little endian are required, but got ",
        order.substr(0, 20), ".");
  }
}

/// The name of the only program in the file.
std::string model_name(const Archive& archive) {
  std::vector<std::string> models;
  for (const auto& name : archive.names()) {
    const bool is_model = name.size() > kModels.size() + kJson.size() && name.substr(0, kModels.size()) == kModels &&
        name.substr(name.size() - kJson.size()) == kJson;
    if (is_model) {
      models.push_back(name.substr(kModels.size(), name.size() - kModels.size() - kJson.size()));
    }
  }
  TORCH_CHECK_VALUE(
      models.size() == 1, "[read_pt2] ", archive.file()->name(),
      ": models/: one program is required, but the file has ", models.size(), ".");
  return models[0];
}

void read_ranges(const JsonField& root, std::map<std::string, Symbol>& symbols) {
  const auto ranges = root["range_constraints"];
  for (const auto& [name, value] : ranges.object()) {
    const auto range = ranges.value_of(value);
    const auto bound = [&](const char* key) -> std::optional<int64_t> {
      const auto field = range.find(key);
      // A number that does not fit into 64 bits is no bound.
      return field && !field->json().is_number_float() ? std::optional(field->integer()) : std::nullopt;
    };
    // Skips ranges of names that are no symbols of the graph.
    const auto found = symbols.find(name);
    if (found != symbols.end()) {
      found->second.min = bound("min_val");
      found->second.max = bound("max_val");
    }
  }
}

/// Checks that the file contains every parameter, buffer and constant, with the type that the graph states.
void check_tensors(const JsonField& specs, const Program& program) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& input = program.inputs[i];
    if (input.kind == InputKind::User) {
      continue;
    }
    const auto found = program.tensors.find(input.target);
    specs[i].check(found != program.tensors.end(), "the file has no tensor \"", input.target, "\"");
    const auto& tensor = found->second;
    const auto& type = input.value->tensor();
    bool is_same = tensor.scalar_type() == type.dtype && tensor.dim() == type.dim();
    for (int64_t dim = 0; is_same && dim < tensor.dim(); ++dim) {
      is_same = type.sizes[dim] == Size(tensor.size(dim));
    }
    specs[i].check(
        is_same, "the graph takes \"", input.target, "\" for another tensor than the file has, one of ",
        tensor.scalar_type(), " and sizes ", tensor.sizes());
  }
}

} // namespace

Program read_pt2(const Archive& archive, const ReadOptions& options) {
  check_format(archive);
  const auto model = model_name(archive);
  const auto record_name = std::string(kModels) + model + std::string(kJson);
  const JsonRecord record(archive.file()->name(), record_name, archive.record(record_name));
  const JsonField root(record);
  const auto version = root["schema_version"];
  version["major"].check(
      version["major"].integer() == kSchemaVersion, "a program of the schema version ", kSchemaVersion,
      " is required, but got ", version["major"].integer());

  Program program;
  NamedValues values;
  const auto graph_module = root["graph_module"];
  read_inputs(graph_module, program, values);
  read_nodes(graph_module["graph"], program, values);
  read_outputs(graph_module, program, values);
  read_ranges(root, program.symbols);
  program.tensors = read_weights(archive, model, options.verifies_weights);
  check_tensors(graph_module["signature"]["input_specs"], program);
  program.calling_convention = read_calling_convention(root, program);
  return program;
}

Program read_pt2(const std::string& path, const ReadOptions& options) {
  return read_pt2(Archive(MappedFile::open(path)), options);
}

Program read_pt2_bytes(std::string bytes, std::string name) {
  return read_pt2(Archive(MappedFile::from_bytes(std::move(bytes), std::move(name))));
}

} // namespace weft::graph
