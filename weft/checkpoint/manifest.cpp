#include "weft/checkpoint/manifest.h"

#include "weft/core/dtype_text.h"
#include "weft/core/json_depth.h"
#include "weft/files/crc32c.h"

#include <c10/util/Exception.h>
#include <c10/util/safe_numerics.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "weft checkpoint";
constexpr int64_t kVersion = 1;
constexpr const char* kChecksum = "checksum";

/// "0:8,16:24", the ends of every run.
std::string runs_text(const Runs& runs) {
  std::string text;
  for (const auto& run : runs) {
    text += c10::str(text.empty() ? "" : ",", run.begin, ":", run.begin + run.length);
  }
  return text;
}

Json part_json(const StoredPart& part) {
  Json json = {{"file", part.file}, {"begin", part.begin}, {"index", Json::array()}};
  for (const auto& runs : part.index) {
    json["index"].push_back(runs_text(runs));
  }
  if (part.checksum) {
    json["crc32c"] = crc32c_text(*part.checksum);
  }
  return json;
}

/// Everything except the checksum.
Json content_of(const StoredTensors& stored, int64_t saved) {
  Json json = {{"format", kFormat}, {"version", kVersion}, {"saved", saved}, {"files", Json::array()}};
  for (const auto& file : stored.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  json["tensors"] = Json::object();
  for (const auto& [name, tensor] : stored.tensors) {
    Json entry = {{"dtype", dtype_text(tensor.dtype)}, {"shape", c10::IntArrayRef(tensor.sizes).vec()}};
    entry["parts"] = Json::array();
    for (const auto& part : tensor.parts) {
      entry["parts"].push_back(part_json(part));
    }
    json["tensors"][name] = std::move(entry);
  }
  json["values"] = Json::object();
  for (const auto& [name, text] : stored.values) {
    json["values"][name] = Json::parse(text);
  }
  return json;
}

c10::DimVector row_major_strides(c10::IntArrayRef sizes) {
  c10::DimVector strides(sizes.size());
  int64_t next = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = next;
    next *= sizes[d];
  }
  return strides;
}

/// Reads a manifest, with errors that name the tensor.
class CheckpointReader {
 public:
  CheckpointReader(std::string_view text, const std::string& name) : name_(name) {
    const auto too_deep = too_deep_at(text);
    check(
        !too_deep,
        c10::str(
            "at most ", kMaxJsonDepth, " lists and objects inside of each other are required, but at byte ",
            too_deep.value_or(0), " are more"));
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

  ReadManifest read(const std::string& folder) const {
    try {
      ReadManifest manifest;
      manifest.stored = content();
      manifest.stored.folder = folder;
      manifest.saved = root_.at("saved").get<int64_t>();
      // Checked last, because the other errors are more specific.
      const auto checksum = crc32c_text(crc32c(content_of(manifest.stored, manifest.saved).dump()));
      const auto stated = root_.at(kChecksum).get<std::string>();
      check(stated == checksum, c10::str("the checksum ", checksum, " is required for what it says, but got ", stated));
      return manifest;
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    TORCH_CHECK_VALUE(false, "[checkpoint] ", name_, " is not what weft::save writes: ", what, ".");
  }
  void check(bool condition, const std::string& what) const {
    if (!condition) {
      fail(what);
    }
  }

  StoredTensors content() const {
    StoredTensors stored;
    for (const auto& json : root_.at("files")) {
      auto name = json.at("name").get<std::string>();
      check(is_file_name(name), "a file of the same folder is required, but got \"" + name + "\"");
      stored.files.push_back({std::move(name), unsigned_of(json.at("bytes"))});
    }
    check(root_.at("tensors").is_object(), "\"tensors\" must be an object");
    for (const auto& [name, json] : root_.at("tensors").items()) {
      stored.tensors.emplace(name, tensor(name, json, stored.files));
    }
    check(root_.at("values").is_object(), "\"values\" must be an object");
    for (const auto& [name, json] : root_.at("values").items()) {
      stored.values.emplace(name, json.dump());
    }
    return stored;
  }

  uint64_t unsigned_of(const Json& json) const {
    check(json.is_number_unsigned(), "a number of bytes is required, but got " + json.dump().substr(0, 80));
    return json.get<uint64_t>();
  }

  int64_t length_of(const Json& json) const {
    const auto value = unsigned_of(json);
    check(value <= INT64_MAX, "a size is out of range");
    return static_cast<int64_t>(value);
  }

  StoredTensor tensor(const std::string& name, const Json& json, const std::vector<StoredFile>& files) const {
    const auto place = "tensor \"" + name + "\" ";
    StoredTensor tensor;
    try {
      tensor.dtype = parse_dtype(json.at("dtype").get<std::string>());
    } catch (const c10::Error&) {
      fail(place + "has the unknown dtype " + json.at("dtype").dump().substr(0, 80));
    }
    uint64_t elements = 1;
    for (const auto& size : json.at("shape")) {
      tensor.sizes.push_back(length_of(size));
      check(
          !c10::mul_overflows(elements, static_cast<uint64_t>(tensor.sizes.back()), &elements),
          place + "has more elements than a tensor can have");
    }
    uint64_t bytes = 0;
    check(
        !c10::mul_overflows(elements, static_cast<uint64_t>(c10::elementSize(tensor.dtype)), &bytes) &&
            bytes <= INT64_MAX,
        place + "has more elements than a tensor can have");
    uint64_t stored = 0;
    for (const auto& part_json : json.at("parts")) {
      tensor.parts.push_back(part(place, part_json, tensor, files));
      stored += static_cast<uint64_t>(block_numel(tensor.parts.back().index));
      check(stored <= elements, place + "has parts with more elements than itself");
    }
    check(stored == elements, c10::str(place, "has ", elements, " elements, but its parts have ", stored));
    return tensor;
  }

  StoredPart part(
      const std::string& place,
      const Json& json,
      const StoredTensor& tensor,
      const std::vector<StoredFile>& files) const {
    StoredPart part;
    part.file = unsigned_of(json.at("file"));
    part.begin = unsigned_of(json.at("begin"));
    check(part.file < files.size(), place + "is in a file that there is not");
    const auto& index = json.at("index");
    check(
        index.is_array() && index.size() == tensor.sizes.size(),
        place + "has a part whose index does not have its number of dims");
    for (size_t d = 0; d < index.size(); ++d) {
      part.index.push_back(runs(place, index[d].get<std::string>(), tensor.sizes[d]));
    }
    const auto bytes = static_cast<uint64_t>(block_numel(part.index)) * c10::elementSize(tensor.dtype);
    check(
        part.begin <= files[part.file].bytes && bytes <= files[part.file].bytes - part.begin,
        place + "has a part that is not inside of its file");
    part.strides = row_major_strides(block_shape(part.index));
    if (json.contains("crc32c")) {
      part.checksum = parse_crc32c(json.at("crc32c").get<std::string>());
      check(part.checksum.has_value(), place + "has a checksum that is not eight hexadecimal digits");
    }
    return part;
  }

  /// Increasing runs inside of a dim, so that none of the elements is there twice.
  Runs runs(const std::string& place, const std::string& text, int64_t size) const {
    Runs result;
    const auto* at = text.data();
    const auto* end = at + text.size();
    int64_t passed = 0;
    while (true) {
      int64_t from = -1;
      int64_t to = -1;
      auto read = std::from_chars(at, end, from);
      bool is_read = read.ec == std::errc() && read.ptr != end && *read.ptr == ':';
      if (is_read) {
        read = std::from_chars(read.ptr + 1, end, to);
        is_read = read.ec == std::errc();
      }
      check(
          is_read && passed <= from && from <= to && to <= size,
          place + "has a part with the index \"" + text.substr(0, 80) + "\"");
      result.push_back({from, to - from});
      passed = to;
      if (read.ptr == end) {
        return result;
      }
      check(*read.ptr == ',', place + "has a part with the index \"" + text.substr(0, 80) + "\"");
      at = read.ptr + 1;
    }
  }

  const std::string& name_;
  Json root_;
};

} // namespace

std::string manifest_text(const StoredTensors& stored, int64_t saved) {
  auto json = content_of(stored, saved);
  json[kChecksum] = crc32c_text(crc32c(json.dump()));
  return json.dump() + "\n";
}

ReadManifest parse_manifest(std::string_view text, const std::string& folder, const std::string& name) {
  return CheckpointReader(text, name).read(folder);
}

ReadManifest load_manifest(const std::string& folder, const char* where) {
  const auto path = folder + "/" + kManifestFile;
  std::ifstream file(path);
  TORCH_CHECK_VALUE(
      file.good(), "[", where, "] a folder that weft::save wrote is required, but ", path,
      std::filesystem::exists(folder) ? " cannot be read: it is no checkpoint, or one that was never completed."
                                      : " does not exist.");
  std::ostringstream text;
  text << file.rdbuf();
  return parse_manifest(text.str(), folder, path);
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
      name.find('\0') == std::string_view::npos;
}

} // namespace weft
