#include "weft/tensor/distribute.h"
#include "tests/support/error_text.h"
#include "tests/support/layout_cases.h"
#include "weft/comm/current_world.h"
#include "weft/comm/run_on_ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace weft::testing;

void on_two_ranks(const std::function<void(const DeviceMesh& mesh)>& fn) {
  run_on_ranks(2, [&](int64_t /*rank*/) { fn(init_device_mesh("cpu", {2}, {"a"})); });
}

at::Tensor whole_numbers(c10::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).view(sizes) - 4;
}

at::Tensor part_of(const at::Tensor& whole, const DeviceMesh& mesh, const Layout& layout) {
  return local_by_definition(whole, layout, mesh.shape(), mesh.coordinate());
}

void expect_equal(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_TRUE(actual.defined());
  EXPECT_TRUE(at::equal(actual, expected)) << actual << "\ninstead of\n" << expected;
}

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), Partial()};

TEST(Distribute, CutsATensorThatEveryRankHolds) {
  const auto whole = whole_numbers({5, 3});
  for (const auto& layout : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1)})) {
    on_two_ranks([&](const DeviceMesh& mesh) {
      const auto tensor = distribute_tensor(whole, mesh, layout);
      EXPECT_EQ(tensor.sizes(), whole.sizes());
      EXPECT_EQ(spec_of(tensor), TensorSpec::make(mesh, layout, {5, 3}, at::kFloat));
      expect_equal(to_local(tensor), part_of(whole, mesh, layout));
      expect_equal(full_tensor(tensor), whole);
    });
  }
}

TEST(Distribute, ChangingTheDistributedTensorLeavesTheOneItWasMadeOf) {
  for (const auto& layout : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1)})) {
    on_two_ranks([&](const DeviceMesh& mesh) {
      const auto whole = whole_numbers({4, 3});
      distribute_tensor(whole, mesh, layout).mul_(2);
      expect_equal(whole, whole_numbers({4, 3}));
    });
  }
}

TEST(Distribute, ADistributedTensorIsALeafThatWantsGradientsAsItsSource) {
  on_two_ranks([](const DeviceMesh& mesh) {
    const auto parameter = distribute_tensor(whole_numbers({4, 3}).set_requires_grad(true), mesh, {Shard(0)});
    EXPECT_TRUE(parameter.is_leaf());
    EXPECT_TRUE(parameter.requires_grad());
    EXPECT_FALSE(distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)}).requires_grad());
  });
}

TEST(Distribute, APartialPlacementIsAnError) {
  on_two_ranks([](const DeviceMesh& mesh) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { distribute_tensor(at::ones({4}), mesh, {Partial()}); }),
        "[distribute_tensor] placements R and S are required, but got {P(sum)}. A partial value comes out of operators "
        "only; use from_local to make one.");
  });
}

TEST(Distribute, FromLocalPutsThePartsTogether) {
  const auto whole = whole_numbers({5, 3});
  for (const auto& layout : all_layouts(1, 2, kPlacements)) {
    on_two_ranks([&](const DeviceMesh& mesh) {
      const auto part = part_of(whole, mesh, layout);
      const auto tensor = from_local(part, mesh, layout, whole.sizes());
      EXPECT_EQ(spec_of(tensor)->layout(), layout);
      expect_equal(to_local(tensor), part);
      expect_equal(full_tensor(tensor), whole);
    });
  }
}

TEST(Distribute, FromLocalTakesPartsToBeEqualInSize) {
  run_on_ranks(4, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"a", "b"});
    const auto part = at::ones({3, 5});
    EXPECT_EQ(from_local(part, mesh, {Shard(0), Shard(-1)}).sizes(), c10::IntArrayRef({6, 10}));
    EXPECT_EQ(from_local(part, mesh, {Shard(0), Shard(0)}).sizes(), c10::IntArrayRef({12, 5}));
    EXPECT_EQ(from_local(part, mesh, {Partial(), Replicate()}).sizes(), c10::IntArrayRef({3, 5}));
  });
}

TEST(Distribute, APartOfAnotherSizeThanTheShapeSaysIsAnError) {
  on_two_ranks([](const DeviceMesh& mesh) {
    const auto rank = mesh.rank(0);
    const std::vector<int64_t> shape = {7, 2};
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { from_local(at::ones({5, 2}), mesh, {Shard(0)}, shape); }),
        c10::str(
            "[from_local] rank ", rank, " must give a local tensor of shape [", rank == 0 ? 4 : 3,
            ", 2] of f32[7,2] @ mesh(a=2) {S(0)}, but got [5, 2]. Give the global shape where the parts are not equal "
            "in size."));
  });
}

TEST(Distribute, RedistributeGivesTheValueAnotherLayout) {
  const auto whole = whole_numbers({5, 3});
  for (const auto& from : all_layouts(1, 2, kPlacements)) {
    for (const auto& to : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1)})) {
      on_two_ranks([&](const DeviceMesh& mesh) {
        const auto tensor = redistribute(from_local(part_of(whole, mesh, from), mesh, from, whole.sizes()), to);
        EXPECT_EQ(spec_of(tensor)->layout(), to);
        expect_equal(to_local(tensor), part_of(whole, mesh, to));
      });
    }
  }
}

TEST(Distribute, APlainTensorIsAnError) {
  const auto plain = at::ones({4, 2});
  const auto text = [](const char* where) {
    return c10::str(
        "[", where,
        "] a distributed tensor is required, but got a plain one of shape [4, 2]. Make one with from_local "
        "or distribute_tensor.");
  };
  EXPECT_EQ(error_text<c10::TypeError>([&] { to_local(plain); }), text("to_local"));
  EXPECT_EQ(error_text<c10::TypeError>([&] { redistribute(plain, {Replicate()}); }), text("redistribute"));
  EXPECT_EQ(error_text<c10::TypeError>([&] { full_tensor(plain); }), text("full_tensor"));
  EXPECT_EQ(error_text<c10::TypeError>([&] { spec_of(plain); }), text("spec_of"));
  expect_contains(error_text<c10::TypeError>([] { to_local(at::Tensor()); }), "but got a plain one. Make one");
}

/// Where the gradient of a tensor of this layout lies.
Layout gradient_layout(const Layout& layout) {
  return layout.has_partial() ? Layout{Replicate()} : layout;
}

TEST(Distribute, TheGradientOfFromLocalIsThePartOfTheGradient) {
  const auto whole = whole_numbers({5, 3});
  const auto weights = whole_numbers({5, 3}) * 2 + 1;
  for (const auto& layout : all_layouts(1, 2, kPlacements)) {
    on_two_ranks([&](const DeviceMesh& mesh) {
      const auto part = part_of(whole, mesh, layout).clone().set_requires_grad(true);
      (full_tensor(from_local(part, mesh, layout, whole.sizes())) * weights).sum().backward();
      EXPECT_FALSE(is_dtensor(part.grad()));
      expect_equal(part.grad(), part_of(weights, mesh, gradient_layout(layout)));
    });
  }
}

TEST(Distribute, TheGradientOfToLocalLiesAsTheTensorAndIsReplicatedForAPartialOne) {
  const auto whole = whole_numbers({5, 3});
  const auto weights = whole_numbers({5, 3}) * 2 + 1;
  for (const auto& layout : all_layouts(1, 2, kPlacements)) {
    on_two_ranks([&](const DeviceMesh& mesh) {
      const auto expected = gradient_layout(layout);
      const auto tensor =
          from_local(part_of(whole, mesh, layout), mesh, layout, whole.sizes()).detach().set_requires_grad(true);
      (to_local(tensor) * part_of(weights, mesh, expected)).sum().backward();
      EXPECT_EQ(spec_of(tensor.grad())->layout(), expected);
      expect_equal(full_tensor(tensor.grad()), weights);
    });
  }
}

TEST(Distribute, TheGradientOfRedistributeLiesAsTheSource) {
  const auto whole = whole_numbers({5, 3});
  const auto weights = whole_numbers({5, 3}) * 2 + 1;
  for (const auto& from : all_layouts(1, 2, kPlacements)) {
    for (const auto& to : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1)})) {
      on_two_ranks([&](const DeviceMesh& mesh) {
        const auto tensor =
            from_local(part_of(whole, mesh, from), mesh, from, whole.sizes()).detach().set_requires_grad(true);
        (to_local(redistribute(tensor, to)) * part_of(weights, mesh, to)).sum().backward();
        EXPECT_EQ(spec_of(tensor.grad())->layout(), gradient_layout(from));
        expect_equal(full_tensor(tensor.grad()), weights);
      });
    }
  }
}

} // namespace
} // namespace weft
