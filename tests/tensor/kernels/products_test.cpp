#include "tests/support/against_plain.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace products_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

void expect_gradients_as_plain(const Values& inputs) {
  expect_as_plain(inputs, [](const Values& in) -> Values {
    const auto result = at::matmul(in[0], in[1]);
    at::real(result * result.conj()).sum().backward();
    return {result, in[0].grad(), in[1].grad()};
  });
}

at::Tensor complex_parameter(at::IntArrayRef sizes) {
  return at::complex(parameter(sizes).detach(), parameter(sizes).detach().flip(0)).set_requires_grad(true);
}

TEST(Products, AMatmulOfComplexMatricesHasTheGradientsOfTheSingleDevice) {
  expect_gradients_as_plain({complex_parameter({4, 3}), complex_parameter({3, 5})});
  expect_gradients_as_plain({complex_parameter({2, 4, 3}), complex_parameter({3, 5})});
  expect_gradients_as_plain({complex_parameter({4, 3}), complex_parameter({3})});
}

TEST(Products, OfRealMatricesTheyAreOneOperator) {
  expect_gradients_as_plain({parameter({4, 3}), parameter({3, 5})});
  expect_gradients_as_plain({parameter({2, 4, 3}), parameter({2, 3, 5})});
}

} // namespace products_test
} // namespace weft
