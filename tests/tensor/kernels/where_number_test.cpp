#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace where_number_test {
using namespace weft::testing;

std::vector<at::Tensor> all_forms(const at::Tensor& x) {
  const auto condition = x.gt(3);
  return {at::where(condition, x, 0.5), at::where(condition, 0.5, x), at::where(condition, 1, 0.5)};
}

// test_tensor.py tests meta tensors, because torch has the meta kernels of `where` only in Python.
TEST(WhereNumber, ValuesEqualTheSingleDevice) {
  const auto global = whole_numbers({4, 3});
  for (const auto dtype : {at::kFloat, at::kLong}) {
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      const auto expected = all_forms(global.to(dtype));
      const auto x = distribute_tensor(global.to(dtype), mesh, {Shard(0)});
      x.set_requires_grad(dtype == at::kFloat);
      const auto found = all_forms(x);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_TRUE(is_dtensor(found[i])) << i;
        EXPECT_EQ(spec_of(found[i])->layout(), Layout{Shard(0)});
        expect_equal(full_tensor(found[i]).detach(), expected[i]);
      }
    });
  }
}

} // namespace where_number_test
} // namespace weft
