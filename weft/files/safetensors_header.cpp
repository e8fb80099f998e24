#include "weft/files/safetensors_header.h"

#include "weft/core/json_depth.h"

#include <c10/util/Exception.h>
#include <c10/util/safe_numerics.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

namespace weft {

namespace {

using c10::ScalarType;

// The dtypes that the Python package supports.
constexpr std::array<std::pair<std::string_view, ScalarType>, 19> kDtypes = {{
    {"F64", ScalarType::Double},
    {"F32", ScalarType::Float},
    {"F16", ScalarType::Half},
    {"BF16", ScalarType::BFloat16},
    {"F8_E4M3", ScalarType::Float8_e4m3fn},
    {"F8_E4M3FNUZ", ScalarType::Float8_e4m3fnuz},
    {"F8_E5M2", ScalarType::Float8_e5m2},
    {"F8_E5M2FNUZ", ScalarType::Float8_e5m2fnuz},
    {"F8_E8M0", ScalarType::Float8_e8m0fnu},
    {"I64", ScalarType::Long},
    {"I32", ScalarType::Int},
    {"I16", ScalarType::Short},
    {"I8", ScalarType::Char},
    {"U64", ScalarType::UInt64},
    {"U32", ScalarType::UInt32},
    {"U16", ScalarType::UInt16},
    {"U8", ScalarType::Byte},
    {"BOOL", ScalarType::Bool},
    {"C64", ScalarType::ComplexFloat},
}};

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeaderBytes = 100'000'000; // the limit of the Python package
constexpr const char* kMetadata = "__metadata__";

uint64_t length_in(std::string_view start) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>(start[i])} << (8 * i);
  }
  return length;
}

class HeaderReader {
 public:
  HeaderReader(uint64_t file_bytes, const std::string& where, const std::string& path, bool allows_unknown_dtypes)
      : file_bytes_(file_bytes), where_(where), path_(path), allows_unknown_dtypes_(allows_unknown_dtypes) {}

  uint64_t checked_length(std::string_view start) const {
    check(
        file_bytes_ >= kLengthBytes && start.size() >= kLengthBytes,
        c10::str("a safetensors file is required, but it has ", file_bytes_, " bytes"));
    const auto length = length_in(start);
    check(
        length <= kMaxHeaderBytes && length <= file_bytes_ - kLengthBytes,
        c10::str("a safetensors file is required, but its header would be ", length, " bytes long"));
    return length;
  }

  std::vector<SafetensorsEntry> read(std::string_view start) {
    const auto length = checked_length(start);
    check(start.size() >= kLengthBytes + length, "the header is truncated");
    data_begin_ = kLengthBytes + length;
    const auto header = parsed(start.substr(kLengthBytes, length));
    std::vector<SafetensorsEntry> entries;
    std::map<uint64_t, uint64_t> ends; // the end of every tensor, by its begin
    for (const auto& [name, json] : header.items()) {
      if (name == kMetadata) {
        continue;
      }
      entries.push_back(entry(name, json));
      const auto& read = entries.back();
      if (read.bytes > 0) {
        const bool is_new = ends.emplace(read.begin - data_begin_, read.begin - data_begin_ + read.bytes).second;
        check_tensor(is_new, name, "shares its bytes with another tensor");
      }
    }
    uint64_t next = 0;
    for (const auto& [begin, end] : ends) {
      check(begin == next, c10::str("the tensors must be stored one after the other, but none begins at byte ", next));
      next = end;
    }
    check(next == data_bytes(), c10::str("the tensors must fill ", data_bytes(), " bytes, but end at ", next));
    return entries;
  }

  void check(bool condition, const std::string& what) const {
    TORCH_CHECK_VALUE(condition, "[", where_, "] ", path_, ": ", what, ".");
  }

 private:
  void check_tensor(bool condition, const std::string& name, const std::string& what) const {
    check(condition, c10::str("tensor \"", name, "\" ", what));
  }
  uint64_t data_bytes() const {
    return file_bytes_ - data_begin_;
  }

  nlohmann::json parsed(std::string_view text) const {
    constexpr int kMaxDepth = 3; // an object of entries, which are objects of lists
    const auto too_deep = too_deep_at(text, kMaxDepth);
    check(!too_deep, c10::str("the header nests deeper than one of tensors at byte ", too_deep.value_or(0)));
    nlohmann::json header;
    try {
      header = nlohmann::json::parse(text);
    } catch (const nlohmann::json::exception& error) {
      check(false, c10::str("the header must be JSON, but: ", error.what()));
    }
    check(header.is_object(), "the header must be an object");
    return header;
  }

  uint64_t number(const std::string& name, const nlohmann::json& json) const {
    check_tensor(json.is_number_unsigned(), name, "has a size or an offset that is no number");
    return json.get<uint64_t>();
  }

  ScalarType dtype(const std::string& name, const nlohmann::json& json) const {
    for (const auto& [text, dtype] : kDtypes) {
      if (json == std::string(text)) {
        return dtype;
      }
    }
    const bool may_be_skipped = allows_unknown_dtypes_ && json.is_string();
    check_tensor(may_be_skipped, name, "has the unknown dtype " + json.dump().substr(0, 80));
    return ScalarType::Undefined;
  }

  SafetensorsEntry entry(const std::string& name, const nlohmann::json& json) const {
    const bool has_all =
        json.is_object() && json.contains("dtype") && json.contains("shape") && json.contains("data_offsets");
    check_tensor(has_all, name, "must have a dtype, a shape and data_offsets");
    const auto& stated = json["data_offsets"];
    check_tensor(stated.is_array() && stated.size() == 2, name, "must have two data_offsets");
    const auto begin = number(name, stated[0]);
    const auto end = number(name, stated[1]);
    check_tensor(
        begin <= end && end <= data_bytes(), name,
        c10::str("is said to be bytes ", begin, " to ", end, ", but there are ", data_bytes()));
    const auto type = dtype(name, json["dtype"]);
    check_tensor(json["shape"].is_array(), name, "must have a list as its shape");
    if (type == ScalarType::Undefined) {
      return {name, type, {}, data_begin_ + begin, end - begin, json["dtype"].get<std::string>()};
    }
    std::vector<int64_t> sizes;
    uint64_t bytes = c10::elementSize(type);
    bool fits = true;
    for (const auto& size : json["shape"]) {
      const auto length = number(name, size);
      fits = fits && length <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) &&
          !c10::mul_overflows(bytes, length, &bytes);
      sizes.push_back(static_cast<int64_t>(length));
    }
    check_tensor(
        fits && bytes == end - begin, name,
        c10::str(
            "of shape ", json["shape"].dump(), " and dtype ", json["dtype"].dump(), " does not take ", end - begin,
            " bytes"));
    return {name, type, std::move(sizes), data_begin_ + begin, bytes};
  }

  uint64_t file_bytes_;
  const std::string& where_;
  const std::string& path_;
  bool allows_unknown_dtypes_;
  uint64_t data_begin_ = 0;
};

std::string_view dtype_name(const SafetensorsEntry& entry, const std::string& where) {
  for (const auto& [text, known] : kDtypes) {
    if (known == entry.dtype) {
      return text;
    }
  }
  TORCH_CHECK_TYPE(
      false, "[", where, "] tensor \"", entry.name, "\" is of a dtype that the format does not have: ", entry.dtype,
      ".");
}

} // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(
    std::string_view start,
    uint64_t file_bytes,
    const std::string& where,
    const std::string& path) {
  return HeaderReader(file_bytes, where, path, /*allows_unknown_dtypes=*/false).read(start);
}

std::vector<SafetensorsEntry> read_safetensors_header(
    const std::string& path,
    const std::string& where,
    bool allows_unknown_dtypes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  TORCH_CHECK_VALUE(file.good(), "[", where, "] ", path, ": cannot be opened: ", std::strerror(errno), ".");
  const auto file_bytes = static_cast<uint64_t>(file.tellg());
  HeaderReader reader(file_bytes, where, path, allows_unknown_dtypes);
  std::string start(std::min<uint64_t>(file_bytes, kLengthBytes), '\0');
  const auto read = [&](size_t from, size_t size) {
    file.seekg(static_cast<std::streamoff>(from));
    file.read(start.data() + from, static_cast<std::streamsize>(size));
    reader.check(file.good(), "it cannot be read");
  };
  read(0, start.size());
  const auto length = reader.checked_length(start);
  start.resize(kLengthBytes + length);
  read(kLengthBytes, length);
  return reader.read(start);
}

std::string make_safetensors_header(
    std::vector<SafetensorsEntry>& entries,
    const std::map<std::string, std::string>& metadata,
    const std::string& where) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header[kMetadata] = metadata;
  }
  uint64_t end = 0;
  for (auto& entry : entries) {
    TORCH_CHECK_VALUE(entry.name != kMetadata, "[", where, "] a tensor cannot be called ", kMetadata, ".");
    entry.begin = end;
    end += entry.bytes;
    header[entry.name] = {
        {"dtype", dtype_name(entry, where)}, {"shape", entry.sizes}, {"data_offsets", {entry.begin, end}}};
  }
  auto text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string start(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    start[i] = static_cast<char>(text.size() >> (8 * i));
  }
  start += text;
  for (auto& entry : entries) {
    entry.begin += start.size();
  }
  return start;
}

bool has_safetensors_dtype(ScalarType dtype) {
  return std::any_of(kDtypes.begin(), kDtypes.end(), [&](const auto& known) { return known.second == dtype; });
}

} // namespace weft
