#include "weft/graph/deploy/safetensors.h"

#include "weft/files/safetensors_header.h"
#include "weft/graph/pt2/mapped_file.h"
#include "weft/graph/pt2/new_file.h"

#include <ATen/ATen.h>

#include <cstring>

namespace weft::graph {

namespace {

/// A tensor in the mapped file.
at::Tensor view_of(const SafetensorsEntry& entry, const std::shared_ptr<const MappedFile>& file) {
  const at::TensorOptions options(entry.dtype);
  if (entry.bytes == 0) {
    return at::empty(entry.sizes, options);
  }
  auto* data = const_cast<char*>(file->bytes().data()) + entry.begin; // writable, because the map is private
  const auto view = [&](c10::ScalarType as) {
    return at::from_blob(data, entry.sizes, [file](void*) {}, at::TensorOptions(as));
  };
  if (entry.dtype == c10::ScalarType::Bool) {
    return view(c10::ScalarType::Byte).ne(0); // a bool byte other than 0 and 1 would be undefined behaviour
  }
  if (reinterpret_cast<uintptr_t>(data) % c10::elementSize(entry.dtype) != 0) {
    auto copy = at::empty(entry.sizes, options);
    std::memcpy(copy.mutable_data_ptr(), data, entry.bytes);
    return copy;
  }
  return view(entry.dtype);
}

} // namespace

NamedTensors read_safetensors(const std::string& path) {
  const auto file = MappedFile::open(path, "read_safetensors");
  const auto bytes = file->bytes();
  NamedTensors tensors;
  for (const auto& entry : parse_safetensors_header(bytes, bytes.size(), "read_safetensors", path)) {
    tensors[entry.name] = view_of(entry, file);
  }
  return tensors;
}

void write_safetensors(const NamedTensors& tensors, const std::string& path) {
  // Larger elements first, so that all tensors are aligned.
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), 0, tensor.nbytes()});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return c10::elementSize(a.dtype) > c10::elementSize(b.dtype);
  });
  const auto start = make_safetensors_header(entries, {}, "write_safetensors");
  NewFile file("write_safetensors", path);
  file.write(start.data(), start.size());
  for (const auto& entry : entries) {
    const auto stored = tensors.at(entry.name).detach().resolve_conj().resolve_neg().cpu().contiguous();
    file.write(stored.const_data_ptr(), stored.nbytes());
  }
  file.complete();
}

} // namespace weft::graph
