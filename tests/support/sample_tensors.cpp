#include "tests/support/sample_tensors.h"

#include <ATen/ATen.h>

namespace weft::testing {

at::Tensor sample(int64_t rank, c10::IntArrayRef sizes, at::ScalarType dtype) {
  const auto index = at::arange(c10::multiply_integers(sizes), at::kLong);
  const auto values = (index * 7 + rank * 5 + index.div(4, "floor")).remainder(4).reshape(sizes);
  if (at::isComplexType(dtype)) {
    const auto imaginary = (values * 3 + rank).remainder(4);
    return at::complex(values.to(at::kDouble), imaginary.to(at::kDouble)).to(dtype);
  }
  return dtype == at::kBool ? values.remainder(2).to(at::kBool) : values.to(dtype);
}

at::Tensor with_gaps(const at::Tensor& tensor) {
  auto sizes = tensor.sizes().vec();
  sizes.push_back(2);
  const auto storage = at::zeros(sizes, tensor.options());
  const auto result = storage.select(-1, 1);
  result.copy_(tensor);
  return result;
}

at::Tensor reduced(c10::ArrayRef<at::Tensor> tensors, ReduceOp op) {
  const auto dtype = tensors[0].scalar_type();
  const auto wide = at::isComplexType(dtype) ? at::kComplexDouble : at::isFloatingType(dtype) ? at::kDouble : at::kLong;
  const auto all = at::stack(tensors).to(wide);
  switch (op) {
    case ReduceOp::Sum:
      return all.sum(0).to(dtype);
    case ReduceOp::Avg:
      return all.mean(0).to(dtype);
    case ReduceOp::Max:
      return std::get<0>(all.max(0)).to(dtype);
    case ReduceOp::Min:
      return std::get<0>(all.min(0)).to(dtype);
    case ReduceOp::Product:
      return all.prod(0).to(dtype);
  }
  TORCH_INTERNAL_ASSERT(false);
}

void check_same(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
  TORCH_CHECK(
      actual.scalar_type() == expected.scalar_type() && actual.sizes() == expected.sizes(), what, ": expected ",
      expected.scalar_type(), expected.sizes(), ", but got ", actual.scalar_type(), actual.sizes());
  // A complex division rounds in several steps.
  const bool same = at::isComplexType(actual.scalar_type()) ? at::allclose(actual, expected, /*rtol=*/1e-6)
                                                            : at::equal(actual, expected);
  TORCH_CHECK(same, what, ": expected\n", expected, "\nbut got\n", actual);
}

} // namespace weft::testing
