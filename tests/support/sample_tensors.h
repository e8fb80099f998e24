#pragma once

#include "weft/core/placement.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace weft::testing {

/// The input of a rank to a check, known to every rank: small integers, so that every reduction of a few of them is exact
/// in every dtype.
at::Tensor sample(int64_t rank, c10::IntArrayRef sizes, at::ScalarType dtype = at::kFloat);

/// The same values, not contiguous.
at::Tensor with_gaps(const at::Tensor& tensor);

/// The reduction as one process computes it: in a wide dtype, rounded once.
at::Tensor reduced(c10::ArrayRef<at::Tensor> tensors, ReduceOp op);

/// Raises unless dtype, shape and every value are the same; complex values may differ in the last digit.
void check_same(const at::Tensor& actual, const at::Tensor& expected, const std::string& what);

} // namespace weft::testing
