#include "weft/graph/capture/traced_type.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace weft::graph {

namespace {

std::vector<int64_t> numbers(const Sizes& sizes) {
  std::vector<int64_t> result;
  for (const auto& size : sizes) {
    result.push_back(size.number());
  }
  return result;
}

} // namespace

TensorType traced_type(const at::Tensor& tensor) {
  TensorType type;
  type.dtype = tensor.scalar_type();
  type.device = tensor.device();
  type.requires_grad = tensor.requires_grad();
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    type.sizes.emplace_back(tensor.size(d));
    // A sparse tensor has no strides.
    type.strides.emplace_back(tensor.layout() == at::kStrided ? tensor.stride(d) : 0);
  }
  return type;
}

std::optional<NumberType> traced_number(const c10::IValue& value) {
  if (value.isInt() || value.isSymInt()) {
    return NumberType{.kind = NumberKind::Int, .expression = {}};
  }
  if (value.isDouble() || value.isSymFloat()) {
    return NumberType{.kind = NumberKind::Float, .expression = {}};
  }
  return value.isBool() ? std::optional(NumberType{.kind = NumberKind::Bool, .expression = {}}) : std::nullopt;
}

at::Tensor meta_tensor(const TensorType& type) {
  return at::empty_strided(
      numbers(type.sizes), numbers(type.strides), at::TensorOptions().dtype(type.dtype).device(at::kMeta));
}

bool has_fixed_sizes(const TensorType& type) {
  const auto is_number = [](const Size& size) { return size.is_number(); };
  return std::all_of(type.sizes.begin(), type.sizes.end(), is_number) &&
      std::all_of(type.strides.begin(), type.strides.end(), is_number);
}

} // namespace weft::graph
