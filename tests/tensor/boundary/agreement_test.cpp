#include "weft/tensor/boundary/agreement.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace agreement_test {
using namespace weft::testing;

SpecPtr spec(const DeviceMesh& mesh, const Layout& layout, c10::IntArrayRef sizes) {
  return TensorSpec::make(mesh, layout, sizes, at::kFloat);
}

TEST(Agreement, LocalTensorsAgreeIfEachHasTheShapeThatFollowsFromTheSpec) {
  const auto global = whole_numbers({5, 3});
  on_all_layouts(2, all_placements(2), [&](const DeviceMesh& mesh, const Layout& layout) {
    check_locals_agree("here", part_of(global, mesh, layout), *spec(mesh, layout, {5, 3}), /*shape_is_given=*/true);
  });
}

TEST(Agreement, NumbersOfDimsMustAgree) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto local = mesh.rank(0) == 0 ? at::ones({2}) : at::ones({});
    const auto own = spec(mesh, {Replicate()}, local.sizes());
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { check_locals_agree("here", local, *own, false); }),
        "[here] all ranks must give tensors of one dtype and number of dims, but rank 0 gave f32 of 1 dims and rank 1 "
        "gave f32 of 0 dims. Convert them first.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { check_globals_agree("there", local, mesh); }),
        "[there] all ranks must give tensors of one dtype and number of dims, but rank 0 gave f32 of 1 dims and rank 1 "
        "gave f32 of 0 dims. Convert them first.");
  });
}

TEST(Agreement, EveryRankSaysTheSame) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    // Ranks 2 and 3 differ; ranks 0 and 1 do not, and raise all the same.
    const auto rank = mesh.world()->rank();
    const auto local = at::full({2}, rank == 3 ? 1.0F : 0.0F);
    EXPECT_EQ(
        error_text<c10::ValueError>([&] {
          check_replicas_agree("here", local, *spec(mesh, {Shard(0), Replicate()}, {4}), ReplicaClaim::Values);
        }),
        "[here] ranks 2 and 3 must hold the same values, since f32[4] @ mesh(a=2,b=2) {S(0), R} says R on mesh dim b, "
        "but "
        "they differ. Give run_check to take those of the first rank, or the placements that the values have.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] {
          check_replicas_agree("here", local, *spec(mesh, {Replicate(), Replicate()}, {2}), ReplicaClaim::Gradients);
        }),
        "[here] ranks 1 and 3 must have the same gradient, since it is taken to be {R, R}, but they differ along mesh "
        "dim "
        "a: a reduction would be lost. Give grad_placements {P(sum), R} where each rank has a term of the gradient.");
  });
}

TEST(Agreement, WhatIsNotSaidToBeReplicatedMayDiffer) {
  on_all_layouts(1, {Replicate(), Shard(0), Partial()}, [](const DeviceMesh& mesh, const Layout& layout) {
    int64_t place = 0;
    for (int64_t m = 0; m < mesh.ndim(); ++m) {
      place = place * 10 + (layout[m].is_replicate() ? 0 : mesh.rank(m));
    }
    const auto local = at::full({2}, static_cast<float>(place));
    check_replicas_agree("here", local, *spec(mesh, layout, {4}), ReplicaClaim::Values);
  });
}

TEST(Agreement, BytesAreComparedInTheOrderOfElements) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto values = at::arange(6, at::kFloat).view({2, 3});
    const auto local = mesh.rank(0) == 0 ? values : values.t().contiguous().t();
    check_replicas_agree("here", local, *spec(mesh, {Replicate()}, {2, 3}), ReplicaClaim::Values);
    check_replicas_agree("here", at::empty({0}), *spec(mesh, {Replicate()}, {0}), ReplicaClaim::Values);
  });
}

TEST(Agreement, WithoutDataThereIsNothingToCompare) {
  on_mesh({2}, [](const DeviceMesh& /*mesh*/) {
    const auto mesh = init_device_mesh("meta", {2}, {"a"});
    const auto local = at::empty({2}, at::device(at::kMeta));
    check_locals_agree("here", local, *spec(mesh, {Replicate()}, {2}), false);
    check_globals_agree("here", local, mesh);
    check_replicas_agree("here", local, *spec(mesh, {Replicate()}, {2}), ReplicaClaim::Values);
  });
}

} // namespace agreement_test

} // namespace weft
