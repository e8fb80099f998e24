#include "weft/checkpoint/huggingface.h"

#include "weft/checkpoint/manifest.h"
#include "weft/core/dense_strides.h"
#include "weft/core/json_depth.h"
#include "weft/files/safetensors_header.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace weft {

namespace {

constexpr const char* kWhere = "load_pretrained";

/// Adds the tensors of a file; those that are named, if any are.
void add_file(StoredTensors& stored, const std::string& name, const std::set<std::string>* named) {
  const auto path = stored.folder + "/" + name;
  const auto entries = read_safetensors_header(path, kWhere, /*allows_unknown_dtypes=*/true);
  std::error_code ignored;
  stored.files.push_back({name, std::filesystem::file_size(path, ignored)});
  std::set<std::string> found;
  for (const auto& entry : entries) {
    if (named != nullptr && !named->contains(entry.name)) {
      continue;
    }
    found.insert(entry.name);
    if (entry.dtype == c10::ScalarType::Undefined) {
      stored.unreadable.emplace(entry.name, entry.unknown_dtype);
      continue;
    }
    StoredTensor tensor{.dtype = entry.dtype, .sizes = c10::DimVector(c10::IntArrayRef(entry.sizes)), .parts = {}};
    tensor.parts.push_back(
        {.file = stored.files.size() - 1,
         .begin = entry.begin,
         .index = full_block(entry.sizes),
         .strides = dense_strides(entry.sizes)});
    stored.tensors.emplace(entry.name, std::move(tensor));
  }
  for (const auto& wanted : named != nullptr ? *named : std::set<std::string>()) {
    TORCH_CHECK_VALUE(
        found.contains(wanted), "[", kWhere, "] ", path, ": the tensor '", wanted,
        "', which the index says is in it, is required, but it is not there.");
  }
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  TORCH_CHECK_VALUE(file.good(), "[", kWhere, "] ", path, ": cannot be read.");
  return text.str();
}

std::vector<std::string> safetensors_files(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".safetensors") {
      names.push_back(entry.path().filename().string());
    }
  }
  return names;
}

} // namespace

std::map<std::string, std::set<std::string>> parse_huggingface_index(std::string_view text, const std::string& path) {
  TORCH_CHECK_VALUE(
      !too_deep_at(text), "[", kWhere, "] ", path, ": the index nests deeper than a map of tensors to files.");
  std::map<std::string, std::set<std::string>> tensors;
  try {
    const auto json = nlohmann::json::parse(text);
    for (const auto& [tensor, name] : json.at("weight_map").items()) {
      const auto file_name = name.get<std::string>();
      TORCH_CHECK_VALUE(
          is_file_name(file_name), "[", kWhere, "] ", path, ": a file of the same folder is required for '", tensor,
          "', but got \"", file_name, "\".");
      tensors[file_name].insert(tensor);
    }
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(
        false, "[", kWhere, "] ", path, ": a map of tensors to files is required, but: ", error.what(), ".");
  }
  return tensors;
}

StoredTensors read_huggingface(const std::string& folder) {
  namespace fs = std::filesystem;
  StoredTensors stored;
  stored.folder = folder;
  if (fs::is_regular_file(folder)) {
    const auto path = fs::absolute(folder);
    stored.folder = path.parent_path().string();
    add_file(stored, path.filename().string(), nullptr);
    return stored;
  }
  const auto index = folder + "/" + kHuggingFaceIndex;
  if (fs::exists(index)) {
    for (const auto& [name, tensors] : parse_huggingface_index(text_of_file(index), index)) {
      add_file(stored, name, &tensors);
    }
    return stored;
  }
  const auto names = safetensors_files(folder);
  const bool has_model = fs::exists(folder + "/" + kHuggingFaceFile);
  TORCH_CHECK_VALUE(
      has_model || names.size() == 1, "[", kWhere, "] ", folder, ": ", kHuggingFaceIndex, ", ", kHuggingFaceFile,
      " or one safetensors file is required, but there are ", names.size(), " of the latter.",
      names.empty() ? " Files of other kinds (.bin, .pth) can be converted with safetensors.torch.save_file." : "");
  add_file(stored, has_model ? kHuggingFaceFile : names[0], nullptr);
  return stored;
}

bool is_huggingface(const std::string& folder) {
  namespace fs = std::filesystem;
  return fs::is_regular_file(folder) || fs::exists(folder + "/" + kHuggingFaceIndex) ||
      fs::exists(folder + "/" + kHuggingFaceFile) ||
      (!fs::exists(folder + "/" + kManifestFile) && safetensors_files(folder).size() == 1);
}

std::string huggingface_index(const std::map<std::string, std::string>& file_of, uint64_t total_bytes) {
  const nlohmann::ordered_json json = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", file_of}};
  return json.dump(2) + "\n";
}

} // namespace weft
