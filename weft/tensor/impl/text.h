#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace weft {

/// The spec of a distributed tensor, then what this rank holds of it; of a long one the first and last values.
///
///   f32[5,3] @ mesh(tp=2) {S(0)}
///   rank 1 holds [2,3]:
///   [[9, 10, 11],
///    [12, 13, 14]]
///
/// Communicates nothing beyond waiting for this rank's part where that is on its way, and never raises. A plain tensor
/// is printed as torch does.
///
/// `std::cout << tensor` and at::print print a distributed tensor as this does (print.cpp).
std::string to_string(const at::Tensor& tensor);

} // namespace weft
