#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// A matmul as dataflow: `input` [..., inner] times one matrix for all of its rows, whichever operator it is of.
struct MatmulCall {
  /// How the matrix lies in `other`: [inner, columns], [columns, inner] as linear has it, or [1, inner, columns].
  enum class Form : uint8_t { AsIs, Transposed, BatchOfOne };

  Node* node = nullptr;
  Value* input = nullptr;
  Value* other = nullptr;
  Form form = Form::AsIs;
  Value* bias = nullptr; // [columns]
  bool is_scaled = false;
  // Of _scaled_mm.
  Value* input_scale = nullptr;
  Value* other_scale = nullptr;
  Value* result_scale = nullptr;
  std::optional<c10::ScalarType> out_dtype = std::nullopt;
  bool use_fast_accum = false;
  /// Why it is none of these, for people: "its right-hand side has 3 dims"; empty where it is one.
  std::string refused = {};

  /// The number of columns, of the whole matrix.
  const Size& columns() const;
};

/// What a node of mm, addmm, bmm, linear, matmul or _scaled_mm is; nothing for another one.
std::optional<MatmulCall> matmul_of(Node& node);

} // namespace weft::graph
