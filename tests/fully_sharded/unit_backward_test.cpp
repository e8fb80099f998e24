#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace unit_backward_test {
using namespace weft::testing;

const at::Tensor kWeight = whole_numbers({5, 3}) / 8;
const at::Tensor kBias = whole_numbers({5}) / 4;
const at::Tensor kInput = whole_numbers({4, 3}) / 4;

/// A linear layer as a unit.
struct Layer {
  std::vector<at::Tensor> parameters;
  std::shared_ptr<Unit> unit;

  explicit Layer(const DeviceMesh& mesh) {
    for (auto& leaf : shard_parameters({kBias, kWeight}, mesh, mesh.name(0))) {
      parameters.push_back(leaf.requires_grad_());
    }
    unit = std::make_shared<Unit>(
        parameters, UnitOptions{.mesh_dim = mesh.name(0)},
        [this](c10::ArrayRef<at::Tensor> put) { parameters = put.vec(); });
  }
  at::Tensor loss() {
    unit->enter(false);
    auto y = at::linear(kInput, parameters[1], parameters[0]);
    unit->leave({y});
    return y.sum();
  }
  void expect_gradients(double times) const {
    const auto weight = kInput.sum(0).expand({5, 3}) * times;
    EXPECT_TRUE(at::allclose(full_tensor(unit->leaves()[1].grad()), weight, 1e-6, 1e-6));
    expect_equal(full_tensor(unit->leaves()[0].grad()), at::full({5}, 4 * times));
  }
};

TEST(UnitBackward, AStepThatIsTriedAgainAfterAFailureAddsNothingTwice) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    layer.unit->set_requires_gradient_sync(false);
    layer.loss().backward();
    // The first parameter has a gradient that can be added, and the second one has not.
    layer.unit->enter(false);
    const auto rows = at::embedding(
        layer.parameters[1], at::arange(2), /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, /*sparse=*/true);
    const auto y = rows.sum() + layer.parameters[0].sum();
    layer.unit->leave({y});
    expect_contains(error_text([&] { y.backward(); }), "dense gradients are required");
    EXPECT_FALSE(layer.unit->is_gathered());
    EXPECT_TRUE(layer.parameters[0].is_same(layer.unit->leaves()[0]));
    layer.loss().backward();
    layer.unit->set_requires_gradient_sync(true);
    layer.loss().backward();
    layer.expect_gradients(2);
  });
}

TEST(UnitBackward, APassThatFailsElsewhereDropsWhatItHasCollected) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    layer.unit->set_requires_gradient_sync(false);
    // The nodes of x run after those of the unit.
    auto x = at::clone(kInput).requires_grad_() * 1;
    x.register_hook([](const at::Tensor&) -> at::Tensor { TORCH_CHECK(false, "stop"); });
    layer.unit->enter(false);
    auto y = at::linear(x, layer.parameters[1], layer.parameters[0]);
    layer.unit->leave({y});
    EXPECT_ANY_THROW(y.sum().backward());
    layer.unit->set_requires_gradient_sync(true);
    layer.loss().backward();
    layer.expect_gradients(1);
  });
}

TEST(UnitBackward, AStepLeavesNothingBehindWhateverIsGiven) {
  using Give = std::function<at::Tensor(const at::Tensor& weight)>;
  const std::vector<Give> forms = {
      [](const at::Tensor& weight) { return weight; },
      [](const at::Tensor& weight) { return weight.t(); },
      [](const at::Tensor& weight) { return weight.detach(); },
      [](const at::Tensor& weight) { return weight * 2; },
  };
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    for (size_t form = 0; form < forms.size(); ++form) {
      for (const bool has_backward : {true, false}) {
        std::weak_ptr<Unit> unit;
        c10::weak_intrusive_ptr<c10::TensorImpl> gathered(at::empty({1}).getIntrusivePtr());
        {
          const Layer layer(mesh);
          unit = layer.unit;
          layer.unit->enter(false);
          gathered = layer.parameters[0].getIntrusivePtr();
          const auto result = forms[form](layer.parameters[0]);
          layer.unit->leave({result});
          if (has_backward && result.requires_grad()) {
            result.sum().backward();
          }
        }
        EXPECT_TRUE(unit.expired()) << "form " << form;
        EXPECT_TRUE(gathered.expired()) << "form " << form;
      }
    }
  });
}

TEST(UnitBackward, LettingAnUnshardedUnitGoLeavesNothingBehind) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    std::weak_ptr<Unit> unit;
    {
      const Layer layer(mesh);
      unit = layer.unit;
      layer.unit->unshard(false);
      EXPECT_FALSE(is_dtensor(layer.parameters[0]));
      layer.unit->let_go();
    }
    EXPECT_TRUE(unit.expired());
  });
}

} // namespace unit_backward_test
} // namespace weft
