#include "tests/support/against_plain.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

namespace weft {

namespace replicated_locals_test {
using namespace weft::testing;

TEST(ReplicatedLocals, HouseholderProductsHaveGradients) {
  expect_as_plain({parameter({4, 3}), parameter({3})}, [](const Values& in) -> Values {
    const auto out = at::linalg_householder_product(in[0], in[1]);
    out.pow(2).sum().backward();
    return {out.detach(), in[0].grad(), in[1].grad()};
  });
}

TEST(ReplicatedLocals, TheRankOfAMatrixIsThatOfTheGlobalOne) {
  expect_as_plain({parameter({4, 4})}, [](const Values& in) -> Values {
    return {at::linalg_matrix_rank(in[0].detach(), 1e-3), at::linalg_matrix_rank(in[0].detach().fill_(1), 1e-3)};
  });
}

} // namespace replicated_locals_test

} // namespace weft
