#include "weft/tensor/random.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace weft {

namespace random_test {
using testing::error_text;

using Factory = at::Tensor (*)(c10::IntArrayRef, const DeviceMesh&, const Layout&, const RandomOptions&);

struct MeshCase {
  std::vector<int64_t> shape;
  std::vector<const char*> layouts;
};

const std::vector<MeshCase>& mesh_cases() {
  static const std::vector<MeshCase> cases = {
      {{1}, {"{R}", "{S(0)}"}},
      {{2}, {"{R}", "{S(0)}", "{S(1)}", "{SS(0,2)}", "{SS(1,3)}"}},
      {{3}, {"{R}", "{S(0)}", "{S(1)}", "{SS(0,2)}"}},
      {{4}, {"{R}", "{S(0)}", "{S(1)}", "{SS(1,2)}"}},
      {{2, 2}, {"{R, R}", "{S(0), S(1)}", "{S(1), S(0)}", "{S(0), S(0)}", "{S(0)[1], S(0)[0]}", "{R, S(1)}"}}};
  return cases;
}

/// Calls `check(mesh, layout)` on all ranks of all meshes, freshly seeded.
void on_all_layouts(const std::function<void(const DeviceMesh&, const Layout&)>& check) {
  for (const auto& [shape, layouts] : mesh_cases()) {
    run_on_ranks(c10::multiply_integers(shape), [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", shape);
      for (const auto* text : layouts) {
        manual_seed(7);
        check(mesh, Layout::parse(text));
      }
    });
  }
}

at::Tensor on_one_rank(Factory factory, c10::IntArrayRef sizes, const RandomOptions& options) {
  at::Tensor result;
  run_on_ranks(1, [&](int64_t /*rank*/) {
    manual_seed(7);
    result = full_tensor(factory(sizes, init_device_mesh("cpu", {1}), {Replicate()}, options));
  });
  return result;
}

TEST(Random, TheSameSeedGivesTheSameTensorOnEveryMeshAndLayout) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const Factory factory : {Factory(rand), Factory(randn)}) {
      const auto expected = on_one_rank(factory, {7, 10}, {.dtype = dtype});
      on_all_layouts([&](const DeviceMesh& mesh, const Layout& layout) {
        const auto tensor = factory({7, 10}, mesh, layout, {.dtype = dtype});
        EXPECT_EQ(spec_of(tensor)->layout(), layout);
        EXPECT_TRUE(at::equal(full_tensor(tensor), expected)) << mesh << " " << layout << " " << dtype;
      });
    }
  }
}

TEST(Random, ReplicasAgreeBitwise) {
  std::vector<at::Tensor> locals(4);
  run_on_ranks(
      4, [&](int64_t rank) { locals[rank] = to_local(randn({33, 5}, init_device_mesh("cpu", {4}), {Replicate()})); });
  for (const auto& local : locals) {
    EXPECT_TRUE(at::equal(local, locals[0]));
  }
}

TEST(Random, EveryCallGivesOtherNumbersUntilTheStateIsRestored) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    manual_seed(1);
    const auto first = full_tensor(rand({8}, mesh, {Shard(0)}));
    const auto state = random_state();
    const auto second = full_tensor(rand({8}, mesh, {Shard(0)}));
    EXPECT_FALSE(at::equal(first, second));
    set_random_state(state);
    EXPECT_TRUE(at::equal(full_tensor(rand({8}, mesh, {Replicate()})), second));
    manual_seed(2);
    EXPECT_FALSE(at::equal(full_tensor(rand({8}, mesh, {Shard(0)})), first));
  });
}

TEST(Random, EqualGeneratorsGiveEqualTensors) {
  const auto make = [](const DeviceMesh& mesh, const Layout& layout) {
    return full_tensor(randn({6, 5}, mesh, layout, {.generator = at::make_generator<at::CPUGeneratorImpl>(9)}));
  };
  at::Tensor expected;
  run_on_ranks(1, [&](int64_t /*rank*/) { expected = make(init_device_mesh("cpu", {1}), {Replicate()}); });
  run_on_ranks(
      3, [&](int64_t /*rank*/) { EXPECT_TRUE(at::equal(make(init_device_mesh("cpu", {3}), {Shard(0)}), expected)); });
}

TEST(Random, OptionsSayDtypeAndWhetherGradientsAreWanted) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto weight =
        randn({4, 4}, init_device_mesh("cpu", {2}), {Shard(0)}, {.dtype = at::kDouble, .requires_grad = true});
    EXPECT_EQ(weight.scalar_type(), at::kDouble);
    EXPECT_TRUE(weight.requires_grad());
    EXPECT_TRUE(weight.is_leaf());
    EXPECT_FALSE(rand({4}, init_device_mesh("cpu", {2}), {Shard(0)}).requires_grad());
  });
}

TEST(Random, PartialIsRefused) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    EXPECT_EQ(
        error_text<c10::ValueError>([] { randn({4}, init_device_mesh("cpu", {2}), {Partial()}); }),
        "[randn] placements R and S are required, but got {P(sum)}. A partial value comes out of operators only; use "
        "from_local to make one.");
  });
}

} // namespace random_test

} // namespace weft
