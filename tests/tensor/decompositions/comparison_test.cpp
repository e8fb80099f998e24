#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace comparison_test {
using namespace weft::testing;

TEST(Equal, IsTheSameOnEveryRankWhateverTheLayouts) {
  const auto global = whole_numbers({5, 3});
  auto other = global.clone();
  other[4][2] += 1; // on the last rank alone
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto x = from_local(part_of(global, mesh, layout), mesh, layout, global.sizes());
    const auto rows = Layout(Placements(mesh.ndim(), Shard(0)));
    EXPECT_TRUE(at::equal(x, distribute_tensor(global, mesh, rows)));
    EXPECT_FALSE(at::equal(x, distribute_tensor(other, mesh, rows)));
    EXPECT_TRUE(at::equal(x, x));
  });
}

TEST(Equal, TensorsOfOtherShapesDiffer) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4, 2}), mesh, {Shard(0)});
    EXPECT_FALSE(at::equal(x, distribute_tensor(at::ones({4, 1}), mesh, {Shard(0)})));
    EXPECT_FALSE(at::equal(x, distribute_tensor(at::ones({8}), mesh, {Shard(0)})));
  });
}

TEST(Equal, WithoutElementsAllAreEqual) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({0, 2}), mesh, {Shard(0)});
    EXPECT_TRUE(at::equal(x, distribute_tensor(at::ones({0, 2}), mesh, {Shard(1)})));
  });
}

TEST(Equal, AsksEveryRankForOneNumber) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({64, 64}), mesh, {Shard(0)});
    const CommLog log(mesh);
    EXPECT_TRUE(at::equal(x, x.clone()));
    EXPECT_LE(log.calls(), 1) << log.to_string();
    EXPECT_LE(log.bytes(), 64) << log.to_string();
  });
}

TEST(Equal, OtherDtypesCompareAsOnASingleDevice) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto a = at::ones({4});
    const auto b = at::ones({4}, at::kDouble);
    for (const Layout& layout : {Layout{Replicate()}, Layout{Shard(0)}}) {
      EXPECT_EQ(at::equal(distribute_tensor(a, mesh, layout), distribute_tensor(b, mesh, layout)), at::equal(a, b))
          << layout;
    }
  });
}

} // namespace comparison_test

} // namespace weft
