#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

namespace weft {

namespace fill_diagonal_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

TEST(FillDiagonal, EveryLayoutTakesIt) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4, 6}, {7, 3}, {3, 3, 3}}) {
    for (const bool wrap : {false, true}) {
      expect_as_plain({parameter(sizes).detach()}, [&](const Values& in) -> Values {
        in[0].clone().fill_diagonal_(1); // leaves the tensor as it is
        return {in[0], in[0].fill_diagonal_(2.5, wrap) * 2};
      });
    }
  }
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto terms = redistribute(distribute_tensor(whole_numbers({3, 3}), mesh, {Replicate()}), {Partial()});
    expect_equal(full_tensor(terms.clone().fill_diagonal_(7)), whole_numbers({3, 3}).fill_diagonal_(7));
  });
}

TEST(FillDiagonal, GradientsOfWhatIsFilledAreZero) {
  expect_as_plain({parameter({4, 6})}, [](const Values& in) -> Values {
    (in[0] * 1).fill_diagonal_(3).pow(2).sum().backward();
    return {in[0].grad()};
  });
}

TEST(FillDiagonal, WhatPlainTensorsRefuseIsRefused) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    expect_contains(
        error_text([&] { distribute_tensor(at::zeros({3}), mesh, {Shard(0)}).fill_diagonal_(1); }),
        "dimensions must larger than 1");
  });
}

} // namespace fill_diagonal_test

} // namespace weft
