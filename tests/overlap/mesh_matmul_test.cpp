#include "weft/overlap/mesh_matmul.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace mesh_matmul_test {
using namespace weft::testing;

TEST(MeshMatmul, GathersAlongMeshDims) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({2, 8, 3});
    const auto first = whole_numbers({3, 5});
    const auto second = whole_numbers({3, 2});
    for (const MeshDims& dims : {MeshDims{0}, MeshDims{1}, MeshDims{0, 1}}) {
      Placements placements(2, Replicate());
      for (const auto m : dims) {
        placements[m] = Shard(1);
      }
      const auto shard = part_of(global, mesh, Layout(placements));
      const auto [outputs, gathered] =
          all_gather_matmul(shard, {first, second}, mesh, dims, {.dim = -2, .chunks = 2, .keeps_gathered = true});
      expect_equal(outputs.at(0), at::matmul(global, first));
      expect_equal(outputs.at(1), at::matmul(global, second));
      expect_equal(gathered, global);
    }
  });
}

TEST(MeshMatmul, ScattersAlongMeshDims) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto input = whole_numbers({2, 8, 3});
    const auto other = whole_numbers({3, 5});
    const auto bias = whole_numbers({5});
    for (const MeshDims& dims : {MeshDims{0}, MeshDims{1}, MeshDims{0, 1}}) {
      Placements placements(2, Replicate());
      int64_t members = 1;
      for (const auto m : dims) {
        placements[m] = Shard(1);
        members *= 2;
      }
      const auto sum = (at::matmul(input, other) + bias) * members;
      expect_equal(
          matmul_reduce_scatter({input}, {other}, mesh, dims, {.dim = -2, .chunks = 2}, bias),
          part_of(sum, mesh, Layout(placements)));
    }
  });
}

TEST(MeshMatmul, NamesMeanNothingOutside) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    all_gather_matmul(whole_numbers({2, 3}), {whole_numbers({3, 2})}, mesh, {0});
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("weft::matmul_reduce_scatter", "");
    const auto x = whole_numbers({2, 2});
    torch::jit::Stack stack{std::vector{x}, std::vector{x}, {}, "sum", int64_t{0}, int64_t{1}, "a", {}};
    ASSERT_EQ(stack.size(), op.schema().arguments().size());
    expect_contains(
        error_text<std::exception>([&] { op.callBoxed(&stack); }), "the name of a group is required, but got 'a'");
  });
}

TEST(MeshMatmul, ChunksAreNeitherSmallNorMany) {
  EXPECT_EQ(usual_chunks(0), 1);
  EXPECT_EQ(usual_chunks(1 << 20), 4);
  EXPECT_EQ(usual_chunks(1 << 30), 8);
}

} // namespace mesh_matmul_test

} // namespace weft
