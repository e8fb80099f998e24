#include "weft/graph/pt2/read_weights.h"

#include "weft/graph/pt2/json_field.h"
#include "weft/graph/pt2/read_types.h"

namespace weft::graph {

namespace {

/// The bytes of a record as the memory of a tensor, which keeps the file mapped. Copies bytes that are not aligned for
/// the dtype.
c10::Storage storage_of(const Archive& archive, std::string_view bytes, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment != 0) {
    auto copy = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(copy.data_ptr()));
    return copy.storage();
  }
  auto* keep = new std::shared_ptr<const MappedFile>(archive.file());
  c10::DataPtr data(
      const_cast<char*>(bytes.data()), keep,
      [](void* file) { delete static_cast<std::shared_ptr<const MappedFile>*>(file); }, c10::kCPU);
  return c10::Storage(
      c10::Storage::use_byte_size_t(), bytes.size(), std::move(data), /*allocator=*/nullptr, /*resizable=*/false);
}

std::vector<int64_t> numbers(const JsonField& field, const Sizes& sizes) {
  std::vector<int64_t> result;
  for (const auto& size : sizes) {
    field.check(
        size.is_number() && size.number() >= 0, "numbers are required for a stored tensor, but got ", size.to_string());
    result.push_back(size.number());
  }
  return result;
}

/// The number of bytes that a tensor needs from the beginning of its record; none if it overflows.
std::optional<uint64_t> bytes_needed(
    const std::vector<int64_t>& sizes,
    const std::vector<int64_t>& strides,
    int64_t offset,
    int64_t width) {
  int64_t count = 1;
  int64_t last = offset;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (__builtin_mul_overflow(count, sizes[dim], &count)) {
      return std::nullopt;
    }
  }
  if (count == 0) {
    return 0;
  }
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    int64_t step = 0;
    if (__builtin_mul_overflow(sizes[dim] - 1, strides[dim], &step) || __builtin_add_overflow(last, step, &last)) {
      return std::nullopt;
    }
  }
  int64_t bytes = 0;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, width, &bytes) ||
      __builtin_mul_overflow(count, width, &count)) {
    return std::nullopt;
  }
  return static_cast<uint64_t>(bytes);
}

class WeightReader {
 public:
  WeightReader(const Archive& archive, std::string folder, bool verifies)
      : archive_(archive), folder_(std::move(folder)), verifies_(verifies) {}

  at::Tensor read(const JsonField& payload) {
    if (payload["use_pickle"].truth()) {
      payload.fail_not_implemented(
          "a pickled tensor is not supported. Tensors of subclasses and custom objects are saved so");
    }
    const auto path = payload["path_name"];
    const auto record = folder_ + path.text();
    path.check(archive_.has(record), "the record ", record.substr(0, 200), " is not in the file");
    const auto bytes = verifies_ ? archive_.record(record) : archive_.unread_record(record);

    const auto meta = payload["tensor_meta"];
    std::map<std::string, Symbol> none;
    const auto type = read_tensor_type(meta, none);
    const auto sizes = numbers(meta["sizes"], type.sizes);
    const auto strides = numbers(meta["strides"], type.strides);
    const auto offset = numbers(meta["storage_offset"], {read_size(meta["storage_offset"], none)})[0];
    const auto width = static_cast<int64_t>(c10::elementSize(type.dtype));
    const auto needed = bytes_needed(sizes, strides, offset, width);
    meta.check(
        needed && *needed <= bytes.size(), "the record ", record, " has ", bytes.size(),
        " bytes, but a tensor of sizes [", c10::Join(", ", sizes), "] and strides [", c10::Join(", ", strides), "] at ",
        offset, " needs ", needed ? std::to_string(*needed) : "more than can be counted");
    auto found = storages_.find(record);
    if (found == storages_.end()) {
      found = storages_.emplace(record, storage_of(archive_, bytes, width)).first;
    }
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(found->second), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type.dtype));
    tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    return tensor;
  }

 private:
  const Archive& archive_;
  std::string folder_;
  bool verifies_;
  std::map<std::string, c10::Storage> storages_;
};

void read_folder(
    const Archive& archive,
    const std::string& folder,
    const std::string& config,
    bool verifies,
    std::map<std::string, at::Tensor>& tensors) {
  const JsonRecord record(archive.file()->name(), folder + config, archive.record(folder + config));
  const auto entries = JsonField(record)["config"];
  WeightReader reader(archive, folder, verifies);
  for (const auto& [name, payload] : entries.object()) {
    const auto field = entries.value_of(payload);
    field.check(tensors.emplace(name, reader.read(field)).second, "there are two tensors \"", name, "\"");
  }
}

} // namespace

std::map<std::string, at::Tensor> read_weights(const Archive& archive, const std::string& model, bool verifies) {
  std::map<std::string, at::Tensor> tensors;
  read_folder(archive, "data/weights/", model + "_weights_config.json", verifies, tensors);
  read_folder(archive, "data/constants/", model + "_constants_config.json", verifies, tensors);
  return tensors;
}

} // namespace weft::graph
