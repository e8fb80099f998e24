#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// gradient @ matrix, where that is partial along a mesh dim that cuts the rows of `like`, the tensor whose gradient it is:
/// the product is reduced to these rows while it is computed (matmul_reduce_scatter), and lies as `like` does. Undefined
/// where it cannot be so, or where this thread's OverlapMode or the rates say no; then at::matmul gives a partial product.
///
///   like x {S(1)}, gradient {S(2)}, matrix {S(0)}      ->   {S(1)}
///
/// Several layers that share an input add up their partial gradients and reduce them once, which they do not if each is
/// reduced by itself. So it has to cost next to nothing beside the matmul: less than a quarter of what it costs alone.
at::Tensor scattered_matmul(const at::Tensor& gradient, const at::Tensor& matrix, const at::Tensor& like);

} // namespace weft
