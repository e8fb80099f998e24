#include "weft/graph/exec/weights.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>

namespace weft::graph {

namespace {

/// The same memory as an inference tensor, whose views are cheaper.
at::Tensor as_inference(const at::Tensor& tensor) {
  const bool is_plain = tensor.layout() == c10::kStrided && tensor.has_storage() && !tensor.is_quantized() &&
      !tensor.is_conj() && !tensor.is_neg();
  if (!is_plain || tensor.is_inference()) {
    return tensor;
  }
  auto same = at::empty({0}, tensor.options().requires_grad(false));
  return same.set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

/// The memory range of a tensor, and all its names.
struct Place {
  const char* begin;
  const char* end;
  std::vector<std::string> names;
  at::Tensor tensor;
  bool is_changed;

  bool is_same_view(const Place& other) const {
    return begin == other.begin && tensor.dtype() == other.tensor.dtype() && tensor.sizes() == other.tensor.sizes() &&
        tensor.strides() == other.tensor.strides();
  }
};

Place place_of(const std::string& name, const at::Tensor& tensor, bool is_changed) {
  if (tensor.layout() != c10::kStrided || !tensor.has_storage() || tensor.numel() == 0) {
    return {nullptr, nullptr, {name}, tensor, is_changed};
  }
  const auto* begin = static_cast<const char*>(tensor.const_data_ptr());
  const auto bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size());
  return {begin, begin + bytes, {name}, tensor, is_changed};
}

/// Groups the names of each tensor. Raises if a changed tensor shares memory with another one.
std::vector<Place> without_overlaps(std::vector<Place> places) {
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::vector<Place> apart;
  for (auto& place : places) {
    if (place.begin != nullptr && !apart.empty() && apart.back().is_same_view(place)) {
      apart.back().names.push_back(place.names[0]);
      apart.back().is_changed = apart.back().is_changed || place.is_changed;
    } else {
      apart.push_back(std::move(place));
    }
  }
  const Place* farthest = nullptr;
  for (const auto& place : apart) {
    if (farthest != nullptr && place.begin < farthest->end) {
      const auto& [changed, other] = place.is_changed ? std::tie(place, *farthest) : std::tie(*farthest, place);
      TORCH_CHECK_NOT_IMPLEMENTED(
          !changed.is_changed, "[Executor] a tensor that the program changes must not share part of its memory, but '",
          changed.names[0], "' shares some with '", other.names[0], "'.");
    }
    farthest = farthest == nullptr || place.end > farthest->end ? &place : farthest;
  }
  return apart;
}

} // namespace

Weights::Weights(const Program& program, const std::unordered_set<std::string>& changed, bool copies_changed) {
  std::vector<Place> places;
  std::unordered_set<std::string> seen;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::User || !seen.insert(input.target).second) {
      continue;
    }
    const auto found = program.tensors.find(input.target);
    TORCH_CHECK_VALUE(
        found != program.tensors.end(), "[Executor] the program must contain the tensor '", input.target,
        "', but it has none of that name.");
    places.push_back(place_of(input.target, found->second, changed.count(input.target) > 0));
  }
  for (const auto& place : without_overlaps(std::move(places))) {
    const auto tensor = place.is_changed && copies_changed ? place.tensor.clone() : as_inference(place.tensor);
    for (const auto& name : place.names) {
      tensors_.emplace(name, tensor);
    }
    if (!place.is_changed && tensor.has_storage()) {
      read_only_.insert(tensor.storage().unsafeGetStorageImpl());
    }
  }
}

const at::Tensor& Weights::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  TORCH_CHECK_VALUE(found != tensors_.end(), "[Executor] the program uses no tensor '", name, "'.");
  return found->second;
}

} // namespace weft::graph
