#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/decompositions/reduced_dims.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

using OptionalDims = at::OptionalIntArrayRef;
using OptionalNumber = std::optional<at::Scalar>;

at::Tensor mean_over_ranks(
    const at::Tensor& self,
    OptionalDims dim,
    bool keepdim,
    std::optional<at::ScalarType> dtype) {
  const auto dims = wrapped_dims(dim, self.dim());
  // Raises on every rank if the arguments are invalid, before any rank communicates.
  const auto result_dtype =
      at::mean(at::empty(self.sizes(), self.options().device(at::kMeta)), dims, keepdim, dtype).scalar_type();
  // The sum of local sums is right for local tensors of any sizes; a mean of local means is wrong if the sizes differ.
  const auto sum = at::sum(self, dims, keepdim, accumulation_dtype(result_dtype));
  return sum.div(reduced_count(self, dims)).to(result_dtype);
}

at::Tensor mean_of_all(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  return mean_over_ranks(self, std::nullopt, /*keepdim=*/false, dtype);
}

/// Two passes: the mean, then the squares of the differences from it. E[x^2] - E[x]^2 would cancel if the mean is
/// large.
std::tuple<at::Tensor, at::Tensor> var_mean_over_ranks(
    const at::Tensor& self,
    OptionalDims dim,
    const OptionalNumber& correction,
    bool keepdim) {
  const auto dims = wrapped_dims(dim, self.dim());
  const auto dtype = self.scalar_type();
  TORCH_CHECK(
      at::isFloatingType(dtype) || at::isComplexType(dtype),
      "var and std: the dtype must be floating point or complex, but got ", dtype, ".");
  const auto center = reduced_where_sharded(
      "aten::var_mean", mean_over_ranks(self, dims, /*keepdim=*/true, accumulation_dtype(dtype)), self);
  const auto distances = self - center;
  // The variance of complex numbers is real: the sum of those of their real and imaginary parts.
  const auto squares = at::sum(at::square(distances.is_complex() ? distances.abs() : distances), dims, keepdim);
  const auto degrees = static_cast<double>(reduced_count(self, dims)) - correction.value_or(at::Scalar(1)).toDouble();
  return {
      squares.div(std::max(degrees, 0.0)).to(c10::toRealValueType(dtype)),
      (keepdim ? center : center.sum(dims)).to(dtype)};
}

at::Tensor var_over_ranks(const at::Tensor& self, OptionalDims dim, const OptionalNumber& correction, bool keepdim) {
  return std::get<0>(var_mean_over_ranks(self, dim, correction, keepdim));
}

at::Tensor std_over_ranks(const at::Tensor& self, OptionalDims dim, const OptionalNumber& correction, bool keepdim) {
  return var_over_ranks(self, dim, correction, keepdim).sqrt();
}

std::tuple<at::Tensor, at::Tensor> std_mean_over_ranks(
    const at::Tensor& self,
    OptionalDims dim,
    const OptionalNumber& correction,
    bool keepdim) {
  const auto [variance, center] = var_mean_over_ranks(self, dim, correction, keepdim);
  return {variance.sqrt(), center};
}

} // namespace

void add_moment_decompositions(Decompositions& all) {
  using c10::KernelFunction;
  const auto add = [&](const char* name, KernelFunction kernel) {
    all.emplace(name, Decomposition{&shards_reduced_dims, std::move(kernel)});
  };
  add("aten::mean", KernelFunction::makeFromUnboxedFunction(TORCH_FN(mean_of_all)));
  add("aten::mean.dim", KernelFunction::makeFromUnboxedFunction(TORCH_FN(mean_over_ranks)));
  add("aten::var.correction", KernelFunction::makeFromUnboxedFunction(TORCH_FN(var_over_ranks)));
  add("aten::std.correction", KernelFunction::makeFromUnboxedFunction(TORCH_FN(std_over_ranks)));
  add("aten::var_mean.correction", KernelFunction::makeFromUnboxedFunction(TORCH_FN(var_mean_over_ranks)));
  add("aten::std_mean.correction", KernelFunction::makeFromUnboxedFunction(TORCH_FN(std_mean_over_ranks)));
}

} // namespace weft
