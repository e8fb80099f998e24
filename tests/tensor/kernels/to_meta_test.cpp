#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace to_meta_test {
using namespace weft::testing;

TEST(ToMeta, ATensorStaysDistributed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({5, 3}), mesh, {Shard(0)});
    const auto meta = x.to(at::Device("meta"));
    ASSERT_TRUE(is_dtensor(meta));
    EXPECT_TRUE(meta.is_meta());
    EXPECT_EQ(spec_of(meta)->to_string(), spec_of(x)->to_string());
    EXPECT_EQ(to_local(meta).sizes(), to_local(x).sizes());
    expect_equal(full_tensor(x.to(at::kDouble)), whole_numbers({5, 3}).to(at::kDouble));
  });
}

} // namespace to_meta_test
} // namespace weft
