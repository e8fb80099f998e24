#include "weft/checkpoint/convert.h"

#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/read_files.h"
#include "weft/checkpoint/retention.h"
#include "weft/checkpoint/write_files.h"
#include "weft/core/checksum_text.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <filesystem>
#include <random>

namespace weft {

namespace {

namespace fs = std::filesystem;

uint64_t bytes_of_tensor(const StoredTensor& tensor) {
  return static_cast<uint64_t>(block_numel(full_block(tensor.sizes))) * c10::elementSize(tensor.dtype);
}

/// The tensors in groups of at most so many bytes.
std::vector<std::vector<std::string>> groups_of(const StoredTensors& stored, const std::string& prefix, uint64_t most) {
  std::vector<std::vector<std::string>> groups;
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : stored.tensors) {
    if (name.rfind(prefix, 0) != 0) {
      continue;
    }
    const auto own = bytes_of_tensor(tensor);
    if (groups.empty() || bytes + own > most) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(name);
    bytes += own;
  }
  return groups;
}

/// Reads the tensors of a group, and writes them as one file under names that `name_of` gives.
WrittenFiles copy_group(
    const StoredTensors& stored,
    const std::vector<std::string>& group,
    const WriteSettings& settings,
    const std::function<std::string(const std::string&)>& name_of) {
  std::vector<ReadTarget> targets;
  std::vector<WriteSource> sources;
  for (const auto& name : group) {
    const auto& tensor = stored.tensors.at(name);
    const auto local = at::empty(tensor.sizes, at::TensorOptions(tensor.dtype).device(at::kCPU));
    targets.push_back({.name = name, .stored = &tensor, .wanted = full_block(tensor.sizes), .local = local});
    sources.push_back({name_of(name), local});
  }
  read_tensors(stored, targets, {.where = "checkpoint"});
  return write_tensors(sources, settings);
}

void report(const ConvertOptions& options, size_t done, size_t all) {
  if (options.on_progress) {
    options.on_progress(static_cast<double>(done) / static_cast<double>(all));
  }
}

} // namespace

int64_t export_huggingface(const StoredTensors& stored, const std::string& folder, const ConvertOptions& options) {
  make_synced_folder(folder, "checkpoint");
  for (const auto& entry : fs::directory_iterator(folder)) {
    TORCH_CHECK_VALUE(
        entry.path().extension() != ".safetensors" && entry.path().filename() != kHuggingFaceIndex, "[checkpoint] ",
        folder, ": a folder without weights is required, but it has ", entry.path().filename().string(),
        ". Name another.");
  }
  const auto groups = groups_of(stored, options.prefix, options.max_file_bytes);
  TORCH_CHECK_VALUE(
      !groups.empty(), "[checkpoint] ", stored.folder, ": tensors whose names begin with \"", options.prefix,
      "\" are required, but there are none.");
  std::map<std::string, std::string> file_of;
  uint64_t total = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto name = groups.size() == 1
        ? std::string(kHuggingFaceFile)
        : c10::str(
              "model-", std::string(5 - std::min<size_t>(5, std::to_string(g + 1).size()), '0'), g + 1, "-of-",
              std::string(5 - std::min<size_t>(5, std::to_string(groups.size()).size()), '0'), groups.size(),
              ".safetensors");
    const auto without_prefix = [&](const std::string& key) { return key.substr(options.prefix.size()); };
    const auto written = copy_group(
        stored, groups[g], {.folder = folder, .prefix = "model", .max_file_bytes = UINT64_MAX}, without_prefix);
    fs::rename(fs::path(folder) / written.files.at(0).name, fs::path(folder) / name);
    for (const auto& key : groups[g]) {
      file_of[without_prefix(key)] = name;
      total += bytes_of_tensor(stored.tensors.at(key));
    }
    report(options, g + 1, groups.size());
  }
  sync_folder(folder);
  if (groups.size() > 1) {
    write_text_file(folder + "/" + kHuggingFaceIndex, huggingface_index(file_of, total));
  }
  return static_cast<int64_t>(file_of.size());
}

int64_t import_tensors(const StoredTensors& stored, const std::string& folder, const ConvertOptions& options) {
  make_synced_folder(folder, "checkpoint");
  TORCH_CHECK_VALUE(
      fs::is_empty(folder), "[checkpoint] ", folder, ": a new folder is required, but it is not empty. Name another.");
  std::random_device random;
  const auto id = checksum_text(random()) + checksum_text(random());
  StoredTensors result{.folder = folder, .values = stored.values};
  const auto groups = groups_of(stored, "", options.max_file_bytes);
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto written = copy_group(
        stored, groups[g],
        {.folder = folder,
         .prefix = id + "_rank0",
         .first_number = static_cast<int64_t>(g) + 1,
         .max_file_bytes = UINT64_MAX},
        [&](const std::string& name) { return options.prefix + name; });
    for (size_t i = 0; i < groups[g].size(); ++i) {
      const auto& tensor = stored.tensors.at(groups[g][i]);
      StoredTensor copy{.dtype = tensor.dtype, .sizes = tensor.sizes};
      if (bytes_of_tensor(tensor) > 0) {
        copy.parts.push_back(
            {.file = result.files.size(),
             .begin = written.tensors[i].begin,
             .index = full_block(tensor.sizes),
             .checksums = written.tensors[i].checksums});
      }
      result.tensors.emplace(options.prefix + groups[g][i], std::move(copy));
    }
    result.files.push_back(written.files.at(0));
    report(options, g + 1, groups.size());
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  sync_folder(folder);
  write_text_file(
      folder + "/" + kManifestFile,
      manifest_text(result, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()));
  return static_cast<int64_t>(result.tensors.size());
}

} // namespace weft
