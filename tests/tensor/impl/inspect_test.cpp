#include "weft/tensor/impl/inspect.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/factories.h"

#include <gtest/gtest.h>

namespace weft {

namespace inspect_test {
using namespace weft::testing;

TEST(Inspect, SaysWhatATensorIs) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = zeros({5, 3}, mesh, {Shard(0)});
    EXPECT_EQ(spec_of(tensor)->to_string(), "f32[5,3] @ mesh(a=2) {S(0)}");
    EXPECT_EQ(mesh_of(tensor), mesh);
    EXPECT_EQ(placements(tensor).size(), 1U);
    EXPECT_EQ(placements(tensor)[0], Shard(0));
  });
}

TEST(Inspect, SaysWhichElementsARankHolds) {
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    for (const auto& block :
         {local_shape_and_offset(zeros({5, 3}, mesh, {Shard(0)})), local_shape_and_offset({5, 3}, mesh, {Shard(-2)})}) {
      const std::vector<c10::DimVector> shapes = {{3, 3}, {2, 3}, {0}};
      EXPECT_EQ(block.shape, shapes[rank]);
      EXPECT_EQ(block.offset, rank == 1 ? c10::DimVector({3, 0}) : c10::DimVector({0, 0}));
    }
  });
}

TEST(Inspect, APlainTensorIsAnError) {
  const auto plain = at::ones({4, 2});
  const auto text = [](const char* where) {
    return c10::str(
        "[", where,
        "] a distributed tensor is required, but got a plain one of shape [4, 2]. Make one with from_local or "
        "distribute_tensor.");
  };
  EXPECT_EQ(error_text<c10::TypeError>([&] { spec_of(plain); }), text("spec_of"));
  EXPECT_EQ(error_text<c10::TypeError>([&] { mesh_of(plain); }), text("mesh_of"));
  EXPECT_EQ(error_text<c10::TypeError>([&] { placements(plain); }), text("placements"));
  EXPECT_EQ(error_text<c10::TypeError>([&] { local_shape_and_offset(plain); }), text("local_shape_and_offset"));
  EXPECT_EQ(error_text<c10::TypeError>([&] { checked_dtensor("here", plain); }), text("here"));
}

} // namespace inspect_test

} // namespace weft
