#pragma once

#include "weft/graph/ir/size.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <variant>

namespace weft::graph {

/// The metadata of a tensor that is known before the program runs.
struct TensorType {
  c10::ScalarType dtype = c10::ScalarType::Float;
  Sizes sizes;
  Sizes strides;
  c10::Device device = c10::kCPU;
  bool requires_grad = false;

  int64_t dim() const {
    return static_cast<int64_t>(sizes.size());
  }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// The strides of a contiguous tensor.
Sizes contiguous_strides(const Sizes& sizes);
TensorType contiguous_type(c10::ScalarType dtype, Sizes sizes, c10::Device device = c10::kCPU);

enum class NumberKind : uint8_t { Int, Float, Bool };

/// A number that is known when the program runs: a size, or a number that is computed from sizes.
struct NumberType {
  NumberKind kind = NumberKind::Int;
  /// The number as an expression of the program's symbols in Python's syntax; empty if it is not known.
  std::string expression;

  friend bool operator==(const NumberType&, const NumberType&) = default;
};

using Type = std::variant<TensorType, NumberType>;

} // namespace weft::graph
