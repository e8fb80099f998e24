// Any text as a map of names over a few stored tensors: an error, or tensors whose elements are inside of their file.
#include "weft/checkpoint/key_map.h"
#include "weft/core/dense_strides.h"

#include "fuzz/quiet_errors.h"

#include <cstdlib>

namespace {

constexpr uint64_t kFileBytes = 4096;

weft::StoredTensors make_stored() {
  weft::StoredTensors stored{.folder = "folder", .files = {{"model.safetensors", kFileBytes}}};
  uint64_t begin = 0;
  const auto add = [&](const std::string& name, c10::IntArrayRef sizes) {
    weft::StoredTensor tensor{.dtype = c10::kFloat, .sizes = c10::DimVector(sizes), .parts = {}};
    const auto index = weft::full_block(sizes);
    tensor.parts.push_back({.file = 0, .begin = begin, .index = index, .strides = weft::dense_strides(sizes)});
    begin += 4 * static_cast<uint64_t>(weft::block_numel(index));
    stored.tensors.emplace(name, std::move(tensor));
  };
  for (const auto* layer : {"0", "1"}) {
    add(std::string("layers.") + layer + ".q", {8, 4});
    add(std::string("layers.") + layer + ".k", {4, 4});
    add(std::string("layers.") + layer + ".v", {4, 4});
    add(std::string("layers.") + layer + ".qkv", {16, 4});
  }
  add("embed", {12, 6});
  add("bias", {6});
  add("empty", {0, 6});
  add("scale", {});
  return stored;
}

void check_inside(const weft::StoredTensor& tensor) {
  for (const auto& part : tensor.parts) {
    if (weft::block_numel(part.index) == 0) {
      continue;
    }
    uint64_t last = part.begin + 4;
    const auto shape = weft::block_shape(part.index);
    for (size_t d = 0; d < shape.size(); ++d) {
      last += 4 * static_cast<uint64_t>((shape[d] - 1) * part.strides[d]);
      for (const auto& run : part.index[d]) {
        if (run.begin < 0 || run.length > tensor.sizes[d] - run.begin) {
          std::abort();
        }
      }
    }
    if (last > kFileBytes) {
      std::abort();
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::quiet_errors();
  static const auto stored = make_stored();
  try {
    const auto map = weft::KeyMap::parse({reinterpret_cast<const char*>(data), size});
    for (const auto* name : {"layers.0.attn.qkv", "layers.0.attn.k", "layers.1.q", "embed", "head", "x"}) {
      try {
        std::set<std::string> used;
        if (const auto tensor = map.find(stored, name, used)) {
          check_inside(*tensor);
        }
      } catch (const c10::Error&) {
        continue; // another name may fit
      }
    }
  } catch (const c10::Error&) {
    return 0;
  }
  return 0;
}
