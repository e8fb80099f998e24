#pragma once

#include "weft/core/traced_tensor.h"

#include <ATen/core/Tensor.h>

#include <functional>

namespace weft {

/// A size of a traced tensor is **open** if the tracer leaves it to be given when the program runs (a SymInt). Specs have numbers.
/// So a function of a tensor with open sizes is not called with that tensor: the Python package calls it with tensors of
/// given sizes, several times, and generalises the operators that it called on local tensors
/// (python/weft/_trace/open_sizes.py).

/// Whether a traced local tensor has open sizes.
inline bool has_open_sizes(const at::TensorBase& local) {
  return C10_UNLIKELY(is_traced(local)) && local.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

/// The result of a differentiable function for a tensor with open sizes. `generalise` computes it; it is set by the Python
/// package.
void generalise_by(std::function<at::Tensor(const at::Tensor&, const TensorFunction&)> generalise);
at::Tensor over_open_sizes(const at::Tensor& tensor, const TensorFunction& function);

} // namespace weft
