#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace views_test {
using namespace weft::testing;

at::Tensor placed(const at::Tensor& whole, const DeviceMesh& mesh, const Layout& layout) {
  return from_local(part_of(whole, mesh, layout), mesh, layout, parts_of(whole.sizes()));
}

TEST(Views, AReshapeOfAPartIsOneOfTheWhole) {
  const auto whole = whole_numbers({6, 4});
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto t = placed(whole, mesh, layout);
    expect_equal(full_tensor(t.slice(1, 1, 3).reshape({6, 1, 2})), whole.slice(1, 1, 3).reshape({6, 1, 2}));
    expect_equal(full_tensor(t.t().reshape({4, 2, 3})), whole.t().reshape({4, 2, 3}));
  });
}

TEST(Views, ADimThatIsOneLongOnARankAloneIsNotSqueezed) {
  const auto whole = whole_numbers({3, 1, 4});
  on_all_layouts(3, {Replicate(), Shard(0), Shard(2)}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto t = placed(whole, mesh, layout);
    expect_equal(full_tensor(t.squeeze()), whole.squeeze());
    expect_equal(full_tensor(t.squeeze(0)), whole);
    expect_equal(full_tensor(t.squeeze(1)), whole.squeeze(1));
  });
}

TEST(Views, ASqueezedTensorStaysWhereItIs) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto t = placed(whole_numbers({3, 1, 4}), mesh, {Shard(0)}).squeeze();
    EXPECT_EQ(spec_of(t)->layout(), Layout({Shard(0)}));
  });
}

TEST(Views, ANewTensorWithTheStridesOfItsShapeLiesAsTheOther) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto t = placed(whole_numbers({5, 4}), mesh, {Shard(0)});
    EXPECT_EQ(spec_of(t.new_empty_strided({5, 4}, {4, 1}))->layout(), Layout({Shard(0)}));
    EXPECT_EQ(spec_of(t.new_empty_strided({5, 4}, {1, 5}))->layout(), Layout({Replicate()}));
  });
}

} // namespace views_test

} // namespace weft
