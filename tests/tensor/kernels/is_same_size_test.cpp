#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace is_same_size_test {
using namespace weft::testing;

TEST(IsSameSize, ComparesGlobalShapesAlsoWithPlainTensors) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)});
    EXPECT_TRUE(x.is_same_size(distribute_tensor(whole_numbers({4, 3}), mesh, {Replicate()})));
    EXPECT_FALSE(x.is_same_size(distribute_tensor(whole_numbers({2, 3}), mesh, {Replicate()})));
    EXPECT_TRUE(at::ones({4, 3}).is_same_size(x));
    EXPECT_FALSE(x.is_same_size(at::ones({2, 3})));
  });
}

} // namespace is_same_size_test
} // namespace weft
