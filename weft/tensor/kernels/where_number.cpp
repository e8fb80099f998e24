#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <ATen/ops/where_compositeimplicitautograd_dispatch.h>

namespace weft {

namespace {

namespace composite = at::compositeimplicitautograd;

at::Tensor tensor_of(const at::Scalar& number, at::ScalarType dtype) {
  return at::scalar_tensor(number, at::dtype(dtype).device(at::kCPU));
}

at::Tensor where_other_number(const at::Tensor& condition, const at::Tensor& self, const at::Scalar& other) {
  if (!condition.is_meta()) {
    return composite::where(condition, self, other);
  }
  const auto dtype = at::result_type(self, other);
  return at::where(condition, self.to(dtype), tensor_of(other, dtype));
}

at::Tensor where_self_number(const at::Tensor& condition, const at::Scalar& self, const at::Tensor& other) {
  if (!condition.is_meta()) {
    return composite::where(condition, self, other);
  }
  const auto dtype = at::result_type(other, self);
  return at::where(condition, tensor_of(self, dtype), other.to(dtype));
}

at::Tensor where_two_numbers(const at::Tensor& condition, const at::Scalar& self, const at::Scalar& other) {
  if (!condition.is_meta()) {
    return composite::where(condition, self, other);
  }
  const auto dtype = at::result_type(self, other);
  return at::where(condition, tensor_of(self, dtype), tensor_of(other, dtype));
}

} // namespace

void register_where_number(torch::Library& library) {
  library.impl("where.ScalarOther", TORCH_FN(where_other_number));
  library.impl("where.ScalarSelf", TORCH_FN(where_self_number));
  library.impl("where.Scalar", TORCH_FN(where_two_numbers));
}

} // namespace weft
