#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace weft {

/// The spec of a distributed tensor, then this rank's local tensor; of a long one the first and last values.
///
///   f32[5,3] @ mesh(tp=2) {S(0)}
///   rank 1 holds [2,3]:
///   [[9, 10, 11],
///    [12, 13, 14]]
///
/// Does not communicate; waits for the local tensor if a collective still writes it. Never raises. A plain tensor is
/// printed as torch does.
///
/// `std::cout << tensor` and at::print print the same text for a distributed tensor (print.cpp).
std::string to_string(const at::Tensor& tensor);

} // namespace weft
