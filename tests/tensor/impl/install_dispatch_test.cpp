#include "weft/tensor/impl/install_dispatch.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace install_dispatch_test {
using namespace weft::testing;

TEST(InstallDispatch, InstallingAgainChangesNothing) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    install_dispatch();
    install_dispatch();
    const auto global = at::arange(8, at::kFloat).view({4, 2});
    EXPECT_TRUE(full_tensor(distribute_tensor(global, mesh, {Shard(0)}).neg()).equal(global.neg()));
  });
}

} // namespace install_dispatch_test

} // namespace weft
