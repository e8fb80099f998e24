#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace one_hot_test {
using namespace weft::testing;

at::Tensor classes(c10::IntArrayRef values) {
  return at::tensor(values, at::kLong);
}

TEST(OneHot, KeepsTheLayoutOfTheIndex) {
  const auto global = classes({0, 3, 1, 2, 3, 0}).view({3, 2});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    for (const auto& placement : {Placement(Shard(0)), Placement(Shard(1)), Placement(Replicate())}) {
      const auto made = at::one_hot(distribute_tensor(global, mesh, {placement}), 5);
      EXPECT_EQ(spec_of(made)->layout(), Layout{placement});
      expect_equal(full_tensor(made), at::one_hot(global, 5));
    }
    const auto index = distribute_tensor(global, mesh, {Shard(0)});
    expect_equal(full_tensor(at::one_hot(index)), at::one_hot(global));
  });
}

TEST(OneHot, TakesNumbersAndEmptyTensors) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto number = at::scalar_tensor(3, at::kLong);
    expect_equal(full_tensor(at::one_hot(distribute_tensor(number, mesh, {Replicate()}))), at::one_hot(number));
    const auto empty = distribute_tensor(classes({}), mesh, {Shard(0)});
    expect_equal(full_tensor(at::one_hot(empty, 4)), at::one_hot(classes({}), 4));
  });
}

TEST(OneHot, RaisesOnEveryRankForAClassOfOneRankThatIsOutOfRange) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto index = distribute_tensor(classes({0, 1, 2, 4}), mesh, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::IndexError>([&] { at::one_hot(index, 4); }),
        "[aten::one_hot] classes from 0 to 3 are required, but got 4 in i64[4] @ mesh(a=2) {S(0)}. Give a larger "
        "num_classes.");
    expect_contains(error_text<c10::IndexError>([&] { at::one_hot(index.neg(), 4); }), "but got -4");
    expect_contains(error_text<c10::TypeError>([&] { at::one_hot(index.to(at::kInt), 4); }), "a tensor of int64");
    expect_contains(error_text<c10::ValueError>([&] { at::one_hot(index, 0); }), "but got 0 for i64[4]");
    const auto empty = distribute_tensor(classes({}), mesh, {Shard(0)});
    expect_contains(error_text<c10::ValueError>([&] { at::one_hot(empty); }), "for an empty tensor, but got -1");
  });
}

} // namespace one_hot_test
} // namespace weft
