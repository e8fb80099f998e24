#include "weft/graph/deploy/weights_folder.h"

#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/read_files.h"
#include "weft/core/checksum_text.h"
#include "weft/files/crc32c.h"
#include "weft/graph/pt2/mapped_file.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

/// The names of each weight: several where a module shares it with another.
std::vector<std::vector<std::string>> names_of_weights(const Program& program) {
  std::vector<std::vector<std::string>> names;
  std::map<std::pair<const void*, std::vector<int64_t>>, size_t> seen;
  for (const auto& input : program.inputs) {
    const bool is_weight =
        input.kind == InputKind::Parameter || (input.kind == InputKind::Buffer && input.is_persistent);
    const auto found = program.tensors.find(input.target);
    if (!is_weight || found == program.tensors.end()) {
      continue;
    }
    const auto& tensor = found->second;
    const bool has_memory = tensor.numel() > 0 && tensor.has_storage();
    const std::pair key(has_memory ? tensor.const_data_ptr() : static_cast<const void*>(&input), tensor.sizes().vec());
    const auto [entry, is_new] = seen.try_emplace(key, names.size());
    if (is_new) {
      names.emplace_back();
    }
    names[entry->second].push_back(input.target);
  }
  return names;
}

/// Opens each file once.
class WeightFiles {
 public:
  explicit WeightFiles(const StoredTensors& stored) : stored_(stored) {}

  at::Tensor tensor(const std::string& name, const StoredTensor& weight, c10::ScalarType dtype) {
    if (weight.parts.size() == 1 && weight.dtype == dtype && dtype != c10::ScalarType::Bool) {
      const auto& part = weight.parts[0];
      if (part.begin % c10::elementSize(dtype) == 0 && block_numel(part.index) > 0) {
        const auto file = opened(part.file);
        check_checksums(name, part, file->bytes());
        auto* data = const_cast<char*>(file->bytes().data()) + part.begin; // the map is private to this process
        return at::from_blob(
            data, weight.sizes, part.strides, [file](void*) {}, at::TensorOptions(dtype).device(at::kCPU));
      }
    }
    auto result = at::empty(weight.sizes, at::TensorOptions(dtype).device(at::kCPU));
    const ReadTarget target{.name = name, .stored = &weight, .wanted = full_block(weight.sizes), .local = result};
    read_tensors(stored_, target, {.where = "use_weights"});
    return result;
  }

 private:
  void check_checksums(const std::string& name, const StoredPart& part, std::string_view bytes) const {
    const auto* checksums = part.checksums.get();
    for (size_t i = 0; checksums != nullptr && i < checksums->values.size(); ++i) {
      const auto range = bytes.substr(checksums->begin, checksums->bytes);
      const auto checksum = crc32c(range.substr(i * checksums->chunk_bytes, checksums->chunk_bytes));
      TORCH_CHECK_VALUE(
          checksum == checksums->values[i], "[use_weights] ", stored_.path_of(part.file), ": tensor '", name,
          "' must have the checksum ", checksum_text(checksums->values[i]), ", but it has ", checksum_text(checksum),
          ". The file was damaged; use another checkpoint.");
    }
  }

  std::shared_ptr<const MappedFile> opened(size_t file) {
    auto& mapped = files_[file];
    if (!mapped) {
      mapped = MappedFile::open(stored_.path_of(file), "use_weights");
      TORCH_CHECK_VALUE(
          mapped->bytes().size() == stored_.files[file].bytes, "[use_weights] ", stored_.path_of(file), ": a file of ",
          stored_.files[file].bytes, " bytes is required, but it has ", mapped->bytes().size(), ".");
    }
    return mapped;
  }

  const StoredTensors& stored_;
  std::map<size_t, std::shared_ptr<const MappedFile>> files_;
};

} // namespace

std::vector<std::string> use_weights(Program& program, const std::string& folder, const KeyMap& map) {
  const auto stored = is_huggingface(folder) ? read_huggingface(folder) : load_manifest(folder, "use_weights").stored;
  const auto names = names_of_weights(program);
  const auto matched = match_keys(stored, names, map);
  std::string missing;
  for (const auto& name : matched.missing) {
    missing += (missing.empty() ? "'" : ", '") + name + "'";
  }
  TORCH_CHECK_VALUE(
      missing.empty(), "[use_weights] ", folder, ": all weights of the program are required, but it lacks ", missing,
      ". Give a key map if they have other names there.");
  WeightFiles files(matched.stored);
  for (const auto& of_one : names) {
    const auto& weight = matched.stored.tensors.at(of_one[0]);
    const auto& own = program.tensors.at(of_one[0]);
    TORCH_CHECK_VALUE(
        own.sizes() == c10::IntArrayRef(weight.sizes), "[use_weights] '", of_one[0], "' must have the shape ",
        own.sizes(), " that the program has, but got ", c10::IntArrayRef(weight.sizes), " in ", folder, ".");
    TORCH_CHECK_TYPE(
        c10::canCast(weight.dtype, own.scalar_type()), "[use_weights] '", of_one[0],
        "' must be stored with a dtype that ", own.scalar_type(), ", which the program has, can hold, but got ",
        weight.dtype, " in ", folder, ".");
    const auto tensor = files.tensor(of_one[0], weight, own.scalar_type());
    for (const auto& name : of_one) {
      program.tensors.at(name) = tensor;
    }
  }
  return matched.unexpected;
}

} // namespace weft::graph
