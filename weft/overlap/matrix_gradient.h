#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// All dims but the last as one: a vector is one row.
at::Tensor as_rows(const at::Tensor& tensor);

/// The gradient of the matrix on the right of `left @ matrix`, whatever dims `left` has: the rows of all batches in one
/// product. Its strides are in the order of the matrix's, because the weight of a linear layer comes transposed.
at::Tensor matrix_gradient(const at::Tensor& left, const at::Tensor& gradient, const at::Tensor& matrix);

} // namespace weft
