#pragma once

#include "weft/core/traced_tensor.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <c10/util/SmallVector.h>

namespace weft {

/// A tensor among a call's arguments and its position there.
struct OperandRef {
  int32_t argument;
  int32_t position; // in a list; -1 for a tensor argument
  const at::Tensor* tensor;
  DTensorImpl* impl; // nullptr for a plain tensor
};

using OperandRefs = c10::SmallVector<OperandRef, 8>;

/// Whether the tensor is a leaf that requires a gradient. A tracer makes leaves of everything that it is given, so that a
/// traced parameter is marked as one instead (is_cast_parameter).
inline bool is_parameter(const at::Tensor& tensor) {
  return tensor.requires_grad() && tensor.is_leaf() && !is_traced(tensor);
}

} // namespace weft
