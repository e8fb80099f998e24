#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// gradient @ matrix, if the product is partial along a mesh dim that shards the rows of `like`, the tensor whose
/// gradient it is. The product is reduce-scattered while it is computed (matmul_reduce_scatter), so that it has the
/// layout of `like`. Returns an undefined tensor if the layouts do not allow this, or if this thread's OverlapMode or
/// the rates decide against it; the caller then uses at::matmul, which gives a partial product.
///
///   like x {S(1)}, gradient {S(2)}, matrix {S(0)}      ->   {S(1)}
///
/// Several layers that share an input add up their partial gradients and reduce the sum once. With scattered_matmul
/// each gradient is reduced by itself instead. So it is used only if the matmul hides three quarters of the
/// reduce-scatter.
at::Tensor scattered_matmul(const at::Tensor& gradient, const at::Tensor& matrix, const at::Tensor& like);

} // namespace weft
