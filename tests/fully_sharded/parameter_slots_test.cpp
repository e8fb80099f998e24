#include "weft/fully_sharded/parameter_slots.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"
#include "weft/tensor/boundary/distribute_tensor.h"

#include <gtest/gtest.h>

namespace weft {

namespace parameter_slots_test {
using namespace weft::testing;

/// One parameter under two names.
class Tied : public ParameterSlots {
 public:
  explicit Tied(const at::Tensor& leaf) : ParameterSlots({{"a", 0}, {"b", 0}}, {leaf}), tensors{leaf, leaf} {}

  at::Tensor get(size_t slot) const override {
    return tensors[slot];
  }
  void set(size_t slot, const at::Tensor& parameter) override {
    tensors[slot] = parameter;
  }
  std::array<at::Tensor, 2> tensors;
};

void with_unit(const std::function<void(Tied&, Unit&)>& check) {
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto leaf = shard_parameters({at::ones({4, 2})}, mesh, mesh.name(0))[0];
    Tied slots(leaf);
    const auto unit = std::make_shared<Unit>(
        std::vector{leaf}, UnitOptions{.mesh_dim = mesh.name(0)}, [](c10::ArrayRef<at::Tensor>) {});
    check(slots, *unit);
  });
}

TEST(ParameterSlots, AParameterThatWasAssignedBecomesTheUnits) {
  with_unit([](Tied& slots, Unit& unit) {
    const auto given = unit.leaves()[0].clone();
    slots.tensors = {given, given};
    slots.adopt_replaced(unit);
    EXPECT_TRUE(unit.leaves()[0].is_same(given));
    const auto other = at::zeros({1});
    slots.put({other});
    EXPECT_TRUE(slots.tensors[1].is_same(other));
  });
}

TEST(ParameterSlots, WhatTheUnitCannotTakeIsAnError) {
  with_unit([](Tied& slots, Unit& unit) {
    const auto adopt = [&] { return error_text<c10::ValueError>([&] { slots.adopt_replaced(unit); }); };
    slots.tensors[0] = unit.leaves()[0].clone();
    expect_contains(adopt(), "a tied parameter is replaced under all of its names, but 'b' is another tensor");
    slots.tensors = {at::ones({4, 2}), slots.tensors[1]};
    slots.tensors[1] = slots.tensors[0];
    expect_contains(adopt(), "was replaced by a plain tensor");
    slots.tensors[1] = at::Tensor();
    expect_contains(adopt(), "was deleted");
    slots.tensors = {unit.leaves()[0].clone(), unit.leaves()[0]};
    expect_contains(
        error_text<c10::ValueError>([&] { slots.put({at::ones({1})}); }),
        "parameters that are replaced between steps alone are required, but 'a' was");
  });
}

} // namespace parameter_slots_test
} // namespace weft
