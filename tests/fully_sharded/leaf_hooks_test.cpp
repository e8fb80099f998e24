#include "weft/fully_sharded/leaf_hooks.h"

#include "tests/support/linear_unit.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace leaf_hooks_test {
using namespace weft::testing;

TEST(LeafHooks, AreCalledOnceForTheSumOfPassesThatAreReducedTogether) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    LinearUnit layer(mesh);
    int calls = 0;
    layer.unit->leaves()[0].register_hook([&](const at::Tensor& gradient) {
      ++calls;
      return gradient * 2;
    });
    const auto pass = [&] { layer.forward(LinearUnit::kInput).sum().backward(); };
    layer.unit->set_requires_gradient_sync(false);
    pass();
    EXPECT_EQ(calls, 0);
    layer.unit->set_requires_gradient_sync(true);
    pass();
    EXPECT_EQ(calls, 1);
    const auto expected = LinearUnit::kInput.sum(0).expand({5, 3}) * 4;
    expect_equal(full_tensor(layer.unit->leaves()[0].grad()), expected.contiguous());
  });
}

} // namespace leaf_hooks_test
} // namespace weft
