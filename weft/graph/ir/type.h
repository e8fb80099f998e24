#pragma once

#include "weft/graph/ir/size.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <variant>

namespace weft::graph {

/// What is known of a tensor before the program runs.
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

/// A number that is known when the program runs: a size, or what is computed of sizes.
struct NumberType {
  NumberKind kind = NumberKind::Int;
  /// What it is of the program's symbols, as Python writes it; empty where that is not known.
  std::string expression;

  friend bool operator==(const NumberType&, const NumberType&) = default;
};

using Type = std::variant<TensorType, NumberType>;

} // namespace weft::graph
