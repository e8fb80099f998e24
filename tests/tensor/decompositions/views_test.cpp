#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace views_test {
using namespace weft::testing;

at::Tensor placed(const at::Tensor& global, const DeviceMesh& mesh, const Layout& layout) {
  return from_local(part_of(global, mesh, layout), mesh, layout, with_global_shape(global.sizes()));
}

TEST(Views, AReshapeOfASliceIsThatOfTheGlobalTensor) {
  const auto global = whole_numbers({6, 4});
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto t = placed(global, mesh, layout);
    expect_equal(full_tensor(t.slice(1, 1, 3).reshape({6, 1, 2})), global.slice(1, 1, 3).reshape({6, 1, 2}));
    expect_equal(full_tensor(t.t().reshape({4, 2, 3})), global.t().reshape({4, 2, 3}));
  });
}

TEST(Views, ADimThatIsOneLongOnARankAloneIsNotSqueezed) {
  const auto global = whole_numbers({3, 1, 4});
  on_all_layouts(3, {Replicate(), Shard(0), Shard(2)}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto t = placed(global, mesh, layout);
    expect_equal(full_tensor(t.squeeze()), global.squeeze());
    expect_equal(full_tensor(t.squeeze(0)), global);
    expect_equal(full_tensor(t.squeeze(1)), global.squeeze(1));
  });
}

TEST(Views, ASqueezedTensorNeedsNoCommunication) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto t = placed(whole_numbers({3, 1, 4}), mesh, {Shard(0)}).squeeze();
    EXPECT_EQ(spec_of(t)->layout(), Layout({Shard(0)}));
  });
}

TEST(Views, ANewTensorWithoutGapsHasTheLayoutOfTheOther) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto t = placed(whole_numbers({5, 4}), mesh, {Shard(0)});
    EXPECT_EQ(spec_of(t.new_empty_strided({5, 4}, {4, 1}))->layout(), Layout({Shard(0)}));
    const auto transposed = t.new_empty_strided({5, 4}, {1, 5});
    EXPECT_EQ(spec_of(transposed)->layout(), Layout({Shard(0)}));
    EXPECT_EQ(transposed.strides(), c10::IntArrayRef({1, 5}));
    const auto local = to_local(transposed);
    EXPECT_EQ(local.sizes(), to_local(t).sizes());
    EXPECT_TRUE(local.t().is_contiguous());
    EXPECT_EQ(spec_of(t.new_empty_strided({5, 4}, {8, 2}))->layout(), Layout({Replicate()}));
  });
}

} // namespace views_test

} // namespace weft
