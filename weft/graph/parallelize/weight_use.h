#pragma once

#include "weft/graph/ir/graph.h"
#include "weft/styles/module_layout.h"

#include <functional>

namespace weft::graph {

/// A call that uses a parameter as the weight of a layer.
///
///   %t = aten::numpy_T(%w); %y = aten::matmul(%x, %t)      // a linear layer with the weight %w and the input %x
///   %y = aten::addmm(%b, %x, %w)                           // a transposed linear layer
///   %y = aten::matmul(%w, %x)                              // a linear layer of the columns of %x
///   %t = aten::mT(%w); %y = aten::_grouped_mm(%x, %t, %o)  // a stack of linear layers, one for every expert
struct WeightUse {
  const Value* weight;  // the parameter that transposes, casts and copies begin with
  const Value* input;   // for an embedding, the positions
  nn::ModuleKind kind;  // of a stack, that of its layers
  bool is_left = false; // the first factor: the output features are in the last but one dim of the result

  bool is_stack() const {
    return weight->tensor().dim() == 3;
  }
  /// The dim of the weight that has the layer's output features; of an embedding, the words.
  int64_t output_dim() const {
    return is_stack() + (kind == nn::ModuleKind::TransposedLinear ? 1 : 0);
  }
};

/// The weight that a call uses: of linear, mm, addmm, matmul and bmm, of embedding, and the stack of _grouped_mm, bmm and matmul. None
/// for another call.
std::optional<WeightUse> weight_use(const Node& node, const std::function<bool(const Value*)>& is_parameter);

} // namespace weft::graph
