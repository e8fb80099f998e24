#include "weft/checkpoint/manifest.h"

#include "weft/core/checksum_text.h"
#include "weft/core/dense_strides.h"
#include "weft/core/dtype_text.h"
#include "weft/files/checked_json.h"
#include "weft/files/crc32c.h"

#include <c10/util/Exception.h>
#include <c10/util/safe_numerics.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

uint32_t checksum_of(std::string_view text) {
  return crc32c(text);
}
constexpr CheckedJson::Kind kKind = {"checkpoint", "weft::save", "weft checkpoint", 1, &checksum_of};

constexpr uint64_t kLargestElement = 16;

/// A JSON list, or the inside of an object: what fn(element) appends to the text, separated by commas.
template <class Range, class Fn>
void append_each(std::string& text, const Range& range, const Fn& fn) {
  bool is_first = true;
  for (const auto& element : range) {
    text += std::exchange(is_first, false) ? "" : ",";
    fn(element);
  }
}

/// "0:8,16:24", the ends of every run.
void append_runs(std::string& text, const Runs& runs) {
  append_each(text, runs, [&](const Run& run) {
    text += std::to_string(run.begin);
    text += ':';
    text += std::to_string(run.begin + run.length);
  });
}

void append_part(std::string& text, const StoredPart& part) {
  text += R"({"file":)" + std::to_string(part.file) + R"(,"begin":)" + std::to_string(part.begin) + R"(,"index":[)";
  append_each(text, part.index, [&](const Runs& runs) {
    text += '"';
    append_runs(text, runs);
    text += '"';
  });
  text += ']';
  if (part.checksums) {
    text += R"(,"chunk":)" + std::to_string(part.checksums->chunk_bytes) + R"(,"crc32c":[)";
    append_each(text, part.checksums->values, [&](uint32_t checksum) {
      text += '"';
      text += checksum_text(checksum);
      text += '"';
    });
    text += ']';
  }
  text += '}';
}

/// Everything except the checksum, as JSON without spaces. The text is written as it is, because a checkpoint may have a million checksums.
std::string content_of(const StoredTensors& stored, int64_t saved) {
  auto text = CheckedJson::begin(kKind).dump();
  text.back() = ',';
  text += R"("saved":)" + std::to_string(saved) + R"(,"files":[)";
  append_each(text, stored.files, [&](const StoredFile& file) {
    text += R"({"name":)" + Json(file.name).dump() + R"(,"bytes":)" + std::to_string(file.bytes) + "}";
  });
  text += R"(],"tensors":{)";
  append_each(text, stored.tensors, [&](const auto& entry) {
    const auto& [name, tensor] = entry;
    text += Json(name).dump() + R"(:{"dtype":)" + Json(dtype_text(tensor.dtype)).dump() + R"(,"shape":[)";
    append_each(text, tensor.sizes, [&](int64_t size) { text += std::to_string(size); });
    text += R"(],"parts":[)";
    append_each(text, tensor.parts, [&](const StoredPart& part) { append_part(text, part); });
    text += "]}";
  });
  text += R"(},"values":{)";
  append_each(text, stored.values, [&](const auto& entry) {
    text += Json(entry.first).dump() + ":" + Json::parse(entry.second).dump();
  });
  return text + "}}";
}

/// Finds out whether parts that together have as many elements as their tensor have each of them once. Each range of indices between two
/// ends of runs gets a random number, and a block the product over its dims of the sums of its numbers. The sum over the parts
/// is the number of the global tensor if every element is there once. If not, it is so with a probability of 10^-9: the
/// difference is a polynomial that is not zero, at a random place. Comparing each two parts would take minutes for a thousand ranks.
class Disjointness {
 public:
  Disjointness(const StoredTensor& tensor, std::mt19937_64& random) : numbers_(tensor.sizes.size()) {
    for (const auto& part : tensor.parts) {
      for (size_t d = 0; d < numbers_.size(); ++d) {
        for (const auto& run : part.index[d]) {
          numbers_[d][run.begin] = 0;
          numbers_[d][run.begin + run.length] = 0;
        }
      }
    }
    for (auto& of_dim : numbers_) {
      uint64_t sum = 0;
      for (auto& [end, number] : of_dim) {
        number = sum;
        sum = (sum + random() % kPrime) % kPrime;
      }
    }
  }

  bool holds(const StoredTensor& tensor) const {
    uint64_t sum = 0;
    for (const auto& part : tensor.parts) {
      sum = (sum + number_of(part.index)) % kPrime;
    }
    return sum == number_of(full_block(tensor.sizes));
  }

 private:
  static constexpr uint64_t kPrime = 4'294'967'291; // products of two remainders fit into 64 bits

  uint64_t number_of(const BlockIndex& block) const {
    uint64_t product = 1;
    for (size_t d = 0; d < block.size(); ++d) {
      uint64_t sum = 0;
      for (const auto& run : block[d]) {
        const auto begin = numbers_[d].find(run.begin);
        const auto end = numbers_[d].find(run.begin + run.length);
        if (begin == numbers_[d].end() || end == numbers_[d].end()) {
          return kPrime; // of the global tensor: no part begins or ends where it does
        }
        sum = (sum + end->second + kPrime - begin->second) % kPrime;
      }
      product = product * sum % kPrime;
    }
    return product;
  }

  /// Per dim, for every end of a run the sum of the numbers before it.
  std::vector<std::map<int64_t, uint64_t>> numbers_;
};

/// Reads a manifest, with errors that name the tensor.
class CheckpointReader : CheckedJson {
 public:
  CheckpointReader(std::string_view text, const std::string& name) : CheckedJson(kKind, text, name) {}

  ReadManifest read(const std::string& folder) const {
    const auto content = [&] {
      ReadManifest manifest;
      manifest.stored = this->stored();
      manifest.stored.folder = folder;
      manifest.saved = root().at("saved").get<int64_t>();
      return manifest;
    };
    return understood(content, [](const ReadManifest& read) { return content_of(read.stored, read.saved); });
  }

 private:
  StoredTensors stored() const {
    StoredTensors stored;
    for (const auto& json : root().at("files")) {
      auto name = json.at("name").get<std::string>();
      check(is_file_name(name), "a file of the same folder is required, but got \"" + name + "\"");
      stored.files.push_back({std::move(name), unsigned_of(json.at("bytes"))});
    }
    check(root().at("tensors").is_object(), "\"tensors\" must be an object");
    for (const auto& [name, json] : root().at("tensors").items()) {
      stored.tensors.emplace(name, tensor(name, json, stored.files));
    }
    check(root().at("values").is_object(), "\"values\" must be an object");
    for (const auto& [name, json] : root().at("values").items()) {
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
          !c10::mul_overflows(elements, static_cast<uint64_t>(tensor.sizes.back()), &elements), place,
          "has more elements than a tensor can have");
    }
    uint64_t bytes = 0;
    check(
        !c10::mul_overflows(elements, static_cast<uint64_t>(c10::elementSize(tensor.dtype)), &bytes) &&
            bytes <= INT64_MAX,
        place, "has more elements than a tensor can have");
    uint64_t stored = 0;
    for (const auto& part_json : json.at("parts")) {
      tensor.parts.push_back(part(place, part_json, tensor, files));
      stored += static_cast<uint64_t>(block_numel(tensor.parts.back().index));
      check(stored <= elements, place, "has parts with more elements than itself");
    }
    check(stored == elements, place, "has ", elements, " elements, but its parts have ", stored);
    check(
        tensor.parts.size() < 2 || Disjointness(tensor, random_).holds(tensor), place,
        "has parts that have some of its elements twice, and others not");
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
    check(part.file < files.size(), place, "is in a file that there is not");
    const auto& index = json.at("index");
    check(
        index.is_array() && index.size() == tensor.sizes.size(), place,
        "has a part whose index does not have its number of dims");
    for (size_t d = 0; d < index.size(); ++d) {
      part.index.push_back(runs(place, index[d].get_ref<const std::string&>(), tensor.sizes[d]));
    }
    const auto bytes = static_cast<uint64_t>(block_numel(part.index)) * c10::elementSize(tensor.dtype);
    check(
        part.begin <= files[part.file].bytes && bytes <= files[part.file].bytes - part.begin, place,
        "has a part that is not inside of its file");
    part.strides = dense_strides(block_shape(part.index));
    if (json.contains("crc32c")) {
      part.checksums = checksums(place, json, part.begin, bytes);
    }
    return part;
  }

  std::shared_ptr<const ChunkChecksums> checksums(
      const std::string& place,
      const Json& json,
      uint64_t begin,
      uint64_t bytes) const {
    ChunkChecksums result{.begin = begin, .bytes = bytes, .chunk_bytes = unsigned_of(json.at("chunk"))};
    const bool has_elements = result.chunk_bytes > 0 && result.chunk_bytes <= std::numeric_limits<int64_t>::max() &&
        result.chunk_bytes % kLargestElement == 0;
    check(has_elements, place, "has checksums of chunks that do not end with an element");
    result.values.reserve(json.at("crc32c").size());
    for (const auto& text : json.at("crc32c")) {
      const auto checksum = parse_checksum(text.get_ref<const std::string&>());
      check(checksum.has_value(), place, "has a checksum that is not eight hexadecimal digits");
      result.values.push_back(*checksum);
    }
    const auto count = bytes / result.chunk_bytes + (bytes % result.chunk_bytes != 0 ? 1 : 0);
    check(
        result.values.size() == count, place, "has a part of ", count, " chunks with ", result.values.size(),
        " checksums");
    return std::make_shared<const ChunkChecksums>(std::move(result));
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
          is_read && passed <= from && from <= to && to <= size, place, "has a part with the index \"",
          std::string_view(text).substr(0, 80), "\"");
      result.push_back({from, to - from});
      passed = to;
      if (read.ptr == end) {
        return result;
      }
      check(*read.ptr == ',', place, "has a part with the index \"", std::string_view(text).substr(0, 80), "\"");
      at = read.ptr + 1;
    }
  }

  mutable std::mt19937_64 random_{
      std::random_device{}()}; // a new one for each tensor would take longer than reading it
};

/// A tensor that has several names, as tied parameters have, is stored under one of them. The value of each other is
/// {"tensor": <the first>}.
void add_other_names(StoredTensors& stored, const std::string& path) {
  for (auto value = stored.values.begin(); value != stored.values.end();) {
    const auto& [name, text] = *value;
    const auto json = text.starts_with(R"({"tensor":)") ? Json::parse(text) : Json();
    if (json.size() != 1 || !json.front().is_string()) {
      ++value;
      continue;
    }
    const auto found = stored.tensors.find(json.front().get<std::string>());
    TORCH_CHECK_VALUE(
        found != stored.tensors.end(), "[checkpoint] ", path, " is not what weft::save writes: '", name,
        "' is another name of the tensor ", json.front().dump(), ", but there is none.");
    auto tensor = found->second;
    stored.tensors.emplace(name, std::move(tensor));
    value = stored.values.erase(value);
  }
}

} // namespace

std::string manifest_text(const StoredTensors& stored, int64_t saved) {
  auto text = content_of(stored, saved);
  CheckedJson::add_checksum(kKind, text);
  return text + "\n";
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
  auto manifest = parse_manifest(text.str(), folder, path);
  add_other_names(manifest.stored, path);
  return manifest;
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
      name.find('\0') == std::string_view::npos;
}

} // namespace weft
