#include "weft/graph/deploy/safetensors.h"

#include "weft/core/json_depth.h"
#include "weft/graph/pt2/mapped_file.h"
#include "weft/graph/pt2/new_file.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <c10/util/safe_numerics.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstring>

namespace weft::graph {

namespace {

using c10::ScalarType;

// The dtypes that the Python package supports.
constexpr std::array<std::pair<std::string_view, ScalarType>, 18> kDtypes = {{
    {"F64", ScalarType::Double},
    {"F32", ScalarType::Float},
    {"F16", ScalarType::Half},
    {"BF16", ScalarType::BFloat16},
    {"F8_E4M3", ScalarType::Float8_e4m3fn},
    {"F8_E4M3FNUZ", ScalarType::Float8_e4m3fnuz},
    {"F8_E5M2", ScalarType::Float8_e5m2},
    {"F8_E5M2FNUZ", ScalarType::Float8_e5m2fnuz},
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

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path) : file_(MappedFile::open(path, "read_safetensors")) {}

  NamedTensors read() {
    const auto header = parse_header();
    NamedTensors tensors;
    std::map<size_t, size_t> ends; // the end of every tensor, by its begin
    for (const auto& [name, entry] : header.items()) {
      if (name == kMetadata) {
        continue;
      }
      const auto [begin, end] = offsets(name, entry);
      if (begin < end) {
        check_tensor(ends.emplace(begin, end).second, name, "shares its bytes with another tensor");
      }
      tensors[name] = tensor(name, entry, begin, end);
    }
    size_t next = 0;
    for (const auto& [begin, end] : ends) {
      check(begin == next, c10::str("the tensors must be stored one after the other, but none begins at byte ", next));
      next = end;
    }
    check(next == data_.size(), c10::str("the tensors must fill ", data_.size(), " bytes, but end at ", next));
    return tensors;
  }

 private:
  void check(bool condition, const std::string& what) const {
    TORCH_CHECK_VALUE(condition, "[read_safetensors] ", file_->name(), ": ", what, ".");
  }
  void check_tensor(bool condition, const std::string& name, const std::string& what) const {
    check(condition, c10::str("tensor \"", name, "\" ", what));
  }

  nlohmann::json parse_header() {
    const auto bytes = file_->bytes();
    uint64_t length = 0;
    check(
        bytes.size() >= kLengthBytes, c10::str("a safetensors file is required, but it has ", bytes.size(), " bytes"));
    for (size_t i = 0; i < kLengthBytes; ++i) {
      length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    check(
        length <= kMaxHeaderBytes && length <= bytes.size() - kLengthBytes,
        c10::str("a safetensors file is required, but its header would be ", length, " bytes long"));
    data_ = bytes.substr(kLengthBytes + length);
    const auto text = bytes.substr(kLengthBytes, length);
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

  std::pair<size_t, size_t> offsets(const std::string& name, const nlohmann::json& entry) const {
    const bool has_all =
        entry.is_object() && entry.contains("dtype") && entry.contains("shape") && entry.contains("data_offsets");
    check_tensor(has_all, name, "must have a dtype, a shape and data_offsets");
    const auto& stated = entry["data_offsets"];
    check_tensor(stated.is_array() && stated.size() == 2, name, "must have two data_offsets");
    const auto begin = number(name, stated[0]);
    const auto end = number(name, stated[1]);
    check_tensor(
        begin <= end && end <= data_.size(), name,
        c10::str("is said to be bytes ", begin, " to ", end, ", but there are ", data_.size()));
    return {begin, end};
  }

  ScalarType dtype(const std::string& name, const nlohmann::json& json) const {
    for (const auto& [text, dtype] : kDtypes) {
      if (json == std::string(text)) {
        return dtype;
      }
    }
    check_tensor(false, name, "has the unknown dtype " + json.dump());
    return {};
  }

  at::Tensor tensor(const std::string& name, const nlohmann::json& entry, size_t begin, size_t end) const {
    const auto type = dtype(name, entry["dtype"]);
    check_tensor(entry["shape"].is_array(), name, "must have a list as its shape");
    std::vector<int64_t> sizes;
    uint64_t bytes = c10::elementSize(type);
    bool fits = true;
    for (const auto& size : entry["shape"]) {
      const auto length = number(name, size);
      fits = fits && length <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) &&
          !c10::mul_overflows(bytes, length, &bytes);
      sizes.push_back(static_cast<int64_t>(length));
    }
    check_tensor(
        fits && bytes == end - begin, name,
        c10::str(
            "of shape ", entry["shape"].dump(), " and dtype ", entry["dtype"].dump(), " does not take ", end - begin,
            " bytes"));
    if (bytes == 0) {
      return at::empty(sizes, at::TensorOptions(type));
    }
    auto* data = const_cast<char*>(data_.data()) + begin; // writable, because the map is private to this process
    const auto view = [&](ScalarType as) {
      return at::from_blob(data, sizes, [file = file_](void*) {}, at::TensorOptions(as));
    };
    if (type == ScalarType::Bool) {
      return view(ScalarType::Byte).ne(0); // a bool byte other than 0 and 1 would be undefined behaviour
    }
    if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(type) != 0) {
      auto copy = at::empty(sizes, at::TensorOptions(type));
      std::memcpy(copy.mutable_data_ptr(), data, bytes);
      return copy;
    }
    return view(type);
  }

  std::shared_ptr<const MappedFile> file_;
  std::string_view data_;
};

std::string_view dtype_name(const std::string& name, ScalarType dtype) {
  for (const auto& [text, known] : kDtypes) {
    if (known == dtype) {
      return text;
    }
  }
  TORCH_CHECK_TYPE(
      false, "[write_safetensors] tensor \"", name, "\" is of a dtype that the format does not have: ", dtype, ".");
}

} // namespace

NamedTensors read_safetensors(const std::string& path) {
  return SafetensorsReader(path).read();
}

void write_safetensors(const NamedTensors& tensors, const std::string& path) {
  // Larger elements first, so that all tensors are aligned.
  std::vector<std::pair<std::string, at::Tensor>> order(tensors.begin(), tensors.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  size_t end = 0;
  for (const auto& [name, tensor] : order) {
    TORCH_CHECK_VALUE(name != kMetadata, "[write_safetensors] a tensor cannot be called ", kMetadata, ".");
    const auto begin = std::exchange(end, end + tensor.nbytes());
    header[name] = {
        {"dtype", dtype_name(name, tensor.scalar_type())},
        {"shape", tensor.sizes().vec()},
        {"data_offsets", {begin, end}}};
  }
  auto text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::array<char, kLengthBytes> length = {};
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i));
  }
  NewFile file("write_safetensors", path);
  file.write(length.data(), length.size());
  file.write(text.data(), text.size());
  for (const auto& [name, tensor] : order) {
    const auto stored = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous();
    file.write(stored.const_data_ptr(), stored.nbytes());
  }
  file.complete();
}

} // namespace weft::graph
