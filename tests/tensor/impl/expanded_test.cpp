#include "weft/tensor/impl/expanded.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace expanded_test {
using namespace weft::testing;

TEST(Expanded, AllRanksRefuseToWriteToAnExpandedTensor) {
  const std::vector<std::function<void(at::Tensor, at::Tensor)>> writes = {
      [](at::Tensor x, const at::Tensor& y) { x.copy_(y); },
      [](at::Tensor x, const at::Tensor& /*y*/) { x.copy_(x); },
      [](at::Tensor x, const at::Tensor& /*y*/) { x.add_(1); },
      [](at::Tensor x, const at::Tensor& y) { at::mul_out(x, y, y); },
      [](at::Tensor x, const at::Tensor& y) { x.scatter_add_(0, at::zeros_like(y, at::kLong), y); },
      [](const at::Tensor& x, const at::Tensor& y) { at::_foreach_copy_({y.clone(), x}, {y, y}); },
      [](at::Tensor x, const at::Tensor& /*y*/) { x.normal_(); },
  };
  on_mesh({4}, [&](const DeviceMesh& mesh) {
    // The last rank holds nothing.
    const auto base = distribute_tensor(at::ones({5}), mesh, {Shard(0)});
    const auto other = distribute_tensor(at::ones({2, 5}), mesh, {Shard(1)});
    for (const auto& write : writes) {
      expect_contains(
          error_text<c10::ValueError>([&] { write(base.expand({2, 5}), other); }),
          "elements in different places of memory are required of a tensor that is written to, but got the expanded "
          "f32[2,5|0,1] @ mesh(a=4) {S(1)}. Clone it first.");
    }
    expect_equal(full_tensor(base), at::ones({5}));
  });
}

TEST(Expanded, MayBeFilled) {
  on_mesh({4}, [](const DeviceMesh& mesh) {
    const auto base = distribute_tensor(at::ones({5}), mesh, {Shard(0)});
    auto x = base.expand({2, 5});
    x.fill_(3);
    expect_equal(full_tensor(base), at::full({5}, 3));
    x.masked_fill_(x.gt(2), 4);
    expect_equal(full_tensor(base), at::full({5}, 4));
    base.unsqueeze(0).expand({1, 5}).add_(1); // each element once
    expect_equal(full_tensor(base), at::full({5}, 5));
  });
}

TEST(Expanded, MayNotBeFilledByAResultThatIsCopiedToIt) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto base = redistribute(distribute_tensor(at::ones({5}), mesh, {Replicate()}), {Partial()});
    auto x = base.expand({2, 5});
    const auto rows = distribute_tensor(at::zeros({1}, at::kLong), mesh, {Replicate()});
    expect_contains(
        error_text<c10::ValueError>([&] { x.index_fill_(0, rows, 3); }),
        "elements in different places of memory are required of a tensor that is written to");
    expect_equal(full_tensor(base), at::ones({5}));
  });
}

} // namespace expanded_test
} // namespace weft
