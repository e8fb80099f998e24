#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// A matmul independent of its operator: `input` [..., inner] times one matrix that is the same for all rows.
struct MatmulCall {
  /// The dims of `other`: [inner, columns], [columns, inner] as in linear, or [1, inner, columns].
  enum class Form : uint8_t { AsIs, Transposed, BatchOfOne };

  Node* node = nullptr;
  Value* input = nullptr;
  Value* other = nullptr;
  Form form = Form::AsIs;
  Value* bias = nullptr; // [columns]
  bool is_scaled = false;
  // Only for _scaled_mm.
  Value* input_scale = nullptr;
  Value* other_scale = nullptr;
  Value* result_scale = nullptr;
  std::optional<c10::ScalarType> out_dtype = std::nullopt;
  bool use_fast_accum = false;
  /// Why the call is not such a matmul, as text: "its right-hand side has 3 dims"; empty if it is one.
  std::string refused = {};

  /// The number of columns of the global matrix.
  const Size& columns() const;
};

/// The matmul that a node of mm, addmm, bmm, linear, matmul or _scaled_mm computes; nothing for another operator.
std::optional<MatmulCall> matmul_of(Node& node);

} // namespace weft::graph
