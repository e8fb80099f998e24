#include "weft/tensor/dispatch/kernel_table.h"

#include "tests/support/on_meshes.h"
#include "weft/rules/register_rule.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>

namespace weft {

namespace kernel_table_test {
using namespace weft::testing;

TEST(KernelTable, HasTheKernelsOfAllOperatorsThatRunByRules) {
  on_mesh({1}, [](const DeviceMesh& mesh) { distribute_tensor(at::ones({2}), mesh, {Shard(0)}); });
  size_t found = 0;
  for_each_kernel([&](const std::string& name, const DTensorKernel& kernel) {
    found += name == "aten::add.Tensor" && kernel.op().schema().name() == "aten::add" ? 1 : 0;
  });
  EXPECT_EQ(found, 1U);
}

TEST(KernelTable, ARegisteredRuleReachesCallsThatWerePrepared) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4, 4}), mesh, {Shard(0)});
    EXPECT_EQ(placements(x.sin())[0], Shard(0));
  });
  register_rule("aten::sin", {"([-,b])->([-,b])"});
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4, 4}), mesh, {Shard(0)});
    EXPECT_NE(placements(x.sin())[0], Shard(0));
  });
  unregister_rule("aten::sin");
  // One rank: where several register, each must do so before any of them makes the call.
  on_mesh({1}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4, 4}), mesh, {Shard(0)});
    EXPECT_EQ(placements(x.sin())[0], Shard(0));
    register_rule("aten::sin", {"([-,b])->([-,b])"}); // also on a thread that has the call in its cache
    EXPECT_NE(placements(x.sin())[0], Shard(0));
  });
  unregister_rule("aten::sin");
}

} // namespace kernel_table_test

} // namespace weft
