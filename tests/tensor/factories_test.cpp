#include "weft/tensor/factories.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace factories_test {
using namespace weft::testing;

using Factory = at::Tensor (*)(c10::IntArrayRef, const DeviceMesh&, const Layout&, const FactoryOptions&);

at::Tensor sevens(c10::IntArrayRef sizes, const DeviceMesh& mesh, const Layout& layout, const FactoryOptions& options) {
  return full(sizes, 7, mesh, layout, options);
}

TEST(Factories, EachRankMakesItsLocalTensor) {
  on_all_layouts(2, {Replicate(), Shard(0), Shard(-1)}, [](const DeviceMesh& mesh, const Layout& layout) {
    const CommLog log(mesh);
    const std::pair<Factory, double> cases[] = {{zeros, 0}, {ones, 1}, {sevens, 7}};
    for (const auto& [make, value] : cases) {
      const auto tensor = make({5, 3}, mesh, layout, {.dtype = at::kDouble});
      EXPECT_EQ(spec_of(tensor), TensorSpec::make(mesh, layout, {5, 3}, at::kDouble));
      expect_equal(to_local(tensor), part_of(at::full({5, 3}, value, at::kDouble), mesh, layout.normalized(2)));
    }
    EXPECT_EQ(
        to_local(empty({5, 3}, mesh, layout)).sizes(), part_of(at::ones({5, 3}), mesh, layout.normalized(2)).sizes());
    EXPECT_EQ(log.calls(), 0);
  });
}

TEST(Factories, DtypesAreTorchs) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    EXPECT_EQ(zeros({2}, mesh, {Replicate()}).scalar_type(), at::kFloat);
    EXPECT_EQ(full({2}, 1.5, mesh, {Replicate()}).scalar_type(), at::kFloat);
    EXPECT_EQ(full({2}, 1, mesh, {Replicate()}).scalar_type(), at::kLong);
    EXPECT_EQ(full({2}, true, mesh, {Replicate()}).scalar_type(), at::kBool);
    EXPECT_EQ(full({2}, c10::complex<double>(1, 2), mesh, {Replicate()}).scalar_type(), at::kComplexFloat);
    EXPECT_EQ(full({2}, 1, mesh, {Replicate()}, {.dtype = at::kHalf}).scalar_type(), at::kHalf);
  });
}

TEST(Factories, ATensorMayRequireAGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = ones({4}, mesh, {Shard(0)}, {.requires_grad = true});
    EXPECT_TRUE(tensor.is_leaf());
    to_local(tensor).sum().backward();
    expect_equal(full_tensor(tensor.grad()), at::ones({4}));
  });
}

TEST(Factories, ZeroDimsMetaAndOtherRanks) {
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    EXPECT_EQ(zeros({}, mesh, {Replicate()}).dim(), 0);
    const auto local = to_local(ones({4, 3}, mesh, {Shard(0)}));
    EXPECT_EQ(local.sizes(), rank == 2 ? c10::IntArrayRef({0}) : c10::IntArrayRef({2, 3}));
    const auto meta = zeros({4, 3}, init_device_mesh("meta", {3}, {"a"}), {Shard(0)});
    EXPECT_TRUE(meta.is_meta());
    EXPECT_EQ(meta.sizes(), c10::IntArrayRef({4, 3}));
  });
}

TEST(Factories, WhatCannotBeIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const std::pair<Factory, const char*> cases[] = {
        {zeros, "zeros"}, {ones, "ones"}, {empty, "empty"}, {sevens, "full"}};
    for (const auto& [make, name] : cases) {
      const auto text = [&, &make = make](const Layout& layout) {
        return error_text<c10::ValueError>([&] { make({4}, mesh, layout, {}); });
      };
      EXPECT_EQ(
          text({Partial()}),
          c10::str(
              "[", name,
              "] placements R and S are required, but got {P(sum)}. A partial value comes out of operators only; use "
              "from_local to make one."));
      EXPECT_EQ(
          text({Replicate(), Replicate()}),
          c10::str(
              "[", name,
              "] one placement per mesh dim is required, but got 2 placements {R, R} for mesh(a=2). Use R for a mesh "
              "dim "
              "that does not shard the tensor."));
    }
    EXPECT_EQ(
        error_text<c10::IndexError>([&] { zeros({}, mesh, {Shard(0)}); }),
        "[Placement] the dim of S(0) must be in [0, 0) for a tensor of 0 dims, but got 0. A 0-dim tensor can only be R "
        "or P.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { zeros({-1}, mesh, {Replicate()}); }),
        "[TensorSpec] sizes must not be negative, but got [-1].");
  });
}

} // namespace factories_test

} // namespace weft
