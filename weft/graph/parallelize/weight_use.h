#pragma once

#include "weft/graph/ir/graph.h"
#include "weft/styles/module_layout.h"

#include <functional>

namespace weft::graph {

/// A call that uses a parameter as the weight of a layer.
///
///   %t = aten::numpy_T(%w); %y = aten::matmul(%x, %t)      // a linear layer with the weight %w and the input %x
struct WeightUse {
  const Value* weight; // the parameter that transposes, casts and copies begin with
  const Value* input;  // for an embedding, the positions
  nn::ModuleKind kind;
};

/// The weight that a call uses: of linear, of mm, addmm, matmul and bmm with its transpose, and of embedding. None for another call.
std::optional<WeightUse> weight_use(const Node& node, const std::function<bool(const Value*)>& is_parameter);

} // namespace weft::graph
