#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace max_pool1d_test {
using namespace weft::testing;

TEST(MaxPool1d, ValuesEqualTheSingleDeviceWithAndWithoutGradients) {
  const auto global = whole_numbers({4, 3, 8});
  for (const bool has_gradient : {false, true}) {
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      const auto x = distribute_tensor(global, mesh, {Shard(0)});
      x.set_requires_grad(has_gradient);
      const auto pooled = at::max_pool1d(x, 2);
      EXPECT_EQ(spec_of(pooled)->layout(), Layout{Shard(0)});
      expect_equal(full_tensor(pooled).detach(), at::max_pool1d(global, 2));
    });
  }
}

} // namespace max_pool1d_test
} // namespace weft
