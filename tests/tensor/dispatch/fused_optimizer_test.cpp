#include "weft/tensor/dispatch/fused_optimizer.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace fused_optimizer_test {
using namespace weft::testing;

/// What a fused optimizer updates: parameters, gradients and the two moments of AdamW.
struct State {
  std::vector<at::Tensor> parameters, gradients, averages, squares, steps;

  void add(const at::Tensor& parameter, const at::Tensor& gradient) {
    parameters.push_back(parameter);
    gradients.push_back(gradient);
    averages.push_back(at::zeros_like(parameter));
    squares.push_back(at::zeros_like(parameter));
    steps.push_back(at::ones({}));
  }
  void step() {
    at::_fused_adamw_(
        parameters, gradients, averages, squares, {}, steps, /*lr=*/0.1, 0.9, 0.99, /*weight_decay=*/0.01, 1e-8,
        /*amsgrad=*/false, /*maximize=*/false);
  }
};

State of_one_device() {
  State state;
  state.add(whole_numbers({4, 6}), whole_numbers({4, 6}) / 7);
  state.add(whole_numbers({5, 3}), whole_numbers({5, 3}) / 3 - 1);
  state.add(whole_numbers({7}), whole_numbers({7}) / 5);
  state.step();
  return state;
}

void expect_as_one_device(const State& state, const State& expected) {
  for (size_t k = 0; k < expected.parameters.size(); ++k) {
    const auto value = [](const at::Tensor& t) { return is_dtensor(t) ? full_tensor(t) : t; };
    expect_equal(value(state.parameters[k]), expected.parameters[k]);
    expect_equal(value(state.averages[k]), expected.averages[k]);
    expect_equal(value(state.squares[k]), expected.squares[k]);
  }
}

TEST(FusedOptimizer, PlainParametersAndThoseOfSeveralMeshesAreUpdatedTogether) {
  const auto expected = of_one_device();
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const auto flat = mesh.flatten({"a", "b"});
    State state;
    const auto on = [](const at::Tensor& t, const DeviceMesh& m, const Layout& l) {
      return distribute_tensor(t, m, l);
    };
    const Layout both{Shard(0), Shard(1)};
    state.add(on(whole_numbers({4, 6}), mesh, both), on(whole_numbers({4, 6}) / 7, mesh, both));
    state.add(on(whole_numbers({5, 3}), flat, {Shard(0)}), on(whole_numbers({5, 3}) / 3 - 1, flat, {Shard(0)}));
    state.add(whole_numbers({7}), whole_numbers({7}) / 5);
    const auto version = state.parameters[0]._version();
    const auto of_plain = state.parameters[2]._version();
    state.step();
    expect_as_one_device(state, expected);
    EXPECT_EQ(state.parameters[0]._version() - version, state.parameters[2]._version() - of_plain);
  });
}

TEST(FusedOptimizer, GradientsOfAnotherLayoutAreRedistributed) {
  const auto expected = of_one_device();
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    State state;
    state.add(
        distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)}),
        distribute_tensor(whole_numbers({4, 6}) / 7, mesh, {Shard(1)}));
    state.add(
        distribute_tensor(whole_numbers({5, 3}), mesh, {Shard(0)}),
        distribute_tensor(whole_numbers({5, 3}) / 3 - 1, mesh, {Replicate()}));
    state.add(whole_numbers({7}), whole_numbers({7}) / 5);
    state.step();
    expect_as_one_device(state, expected);
  });
}

TEST(FusedOptimizer, CopiesNoticeTheUpdate) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    State state;
    state.add(
        distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)}),
        distribute_tensor(whole_numbers({4, 6}) / 7, mesh, {Shard(0)}));
    const auto copy = state.parameters[0].slice(0, 1, 3); // of sharded rows
    state.step();
    EXPECT_THROW(copy.sum(), c10::ValueError);
  });
}

TEST(FusedOptimizer, PlainGradientsOfDistributedParametersAreRefused) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    State state;
    state.add(distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)}), whole_numbers({4, 6}));
    EXPECT_THROW(state.step(), c10::ValueError);
    state.add(distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)}), whole_numbers({4, 6}));
    EXPECT_THROW(state.step(), c10::ValueError);
  });
}

} // namespace fused_optimizer_test
} // namespace weft
