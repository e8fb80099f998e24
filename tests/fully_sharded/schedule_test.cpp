#include "weft/fully_sharded/schedule.h"

#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace schedule_test {
using namespace weft::testing;

constexpr int kLayers = 4;

/// Linear layers that run one after the other, and what is gathered when each begins to compute.
struct Model {
  std::vector<std::vector<at::Tensor>> parameters{kLayers};
  std::vector<std::shared_ptr<Unit>> units;
  std::vector<int64_t> calls; // made when a layer had what it needs

  explicit Model(const DeviceMesh& mesh) : mesh_(mesh) {
    const auto schedule = std::make_shared<Schedule>();
    for (int i = 0; i < kLayers; ++i) {
      const auto leaf = shard_parameters({whole_numbers({6, 6}) / 64}, mesh, mesh.name(0))[0].requires_grad_();
      parameters[i] = {leaf};
      units.push_back(std::make_shared<Unit>(
          std::vector<at::Tensor>{leaf}, UnitOptions{.mesh_dim = mesh.name(0)},
          [this, i](c10::ArrayRef<at::Tensor> put) { parameters[i] = put.vec(); }));
      units.back()->join(schedule);
    }
  }
  void step() {
    const CommLog log(mesh_);
    auto x = at::ones({2, 6});
    for (int i = 0; i < kLayers; ++i) {
      units[i]->enter(false);
      calls.push_back(log.calls());
      x = at::relu(at::linear(x, parameters[i][0]));
      units[i]->leave({x});
    }
    x.sum().backward();
    calls.push_back(log.calls());
  }

 private:
  DeviceMesh mesh_;
};

TEST(Schedule, TheNextGatherStartsBeforeALayerComputesFromTheSecondStepOn) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    model.step();
    EXPECT_EQ(model.calls, (std::vector<int64_t>{1, 2, 3, 4, 4 + 4 + 4}));
    model.calls.clear();
    model.step();
    EXPECT_EQ(model.calls, (std::vector<int64_t>{2, 3, 4, 4, 4 + 4 + 4}));
  });
}

TEST(Schedule, NothingStaysGatheredAfterAStep) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    for (int i = 0; i < 3; ++i) {
      model.step();
      for (const auto& unit : model.units) {
        EXPECT_FALSE(unit->is_gathered());
      }
    }
  });
}

TEST(Schedule, GathersThatWereGivenAreStartedInTheirPlace) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    model.units[0]->set_forward_prefetch({model.units[1], model.units[2]});
    model.units[1]->set_forward_prefetch({});
    model.units[2]->set_forward_prefetch({model.units[3]});
    model.step();
    EXPECT_EQ(model.calls, (std::vector<int64_t>{3, 3, 4, 4, 4 + 4 + 4}));
  });
}

TEST(Schedule, ABackwardThatFailsLeavesNothingGathered) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const Model model(mesh);
    auto x = at::ones({2, 6}).requires_grad_();
    x.register_hook([](const at::Tensor&) -> at::Tensor { TORCH_CHECK(false, "stop"); });
    auto y = x * 1;
    y.register_hook([](const at::Tensor&) -> at::Tensor { TORCH_CHECK(false, "stop"); });
    model.units[0]->enter(false);
    auto z = at::linear(y, model.parameters[0][0]);
    model.units[0]->leave({z});
    EXPECT_ANY_THROW(z.sum().backward());
    EXPECT_FALSE(model.units[0]->is_gathered());
  });
}

} // namespace schedule_test
} // namespace weft
