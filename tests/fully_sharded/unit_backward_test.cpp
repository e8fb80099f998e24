#include "tests/support/error_text.h"
#include "tests/support/linear_unit.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

namespace weft {

namespace unit_backward_test {
using namespace weft::testing;

using Layer = LinearUnit;

at::Tensor loss_of(Layer& layer) {
  return layer.forward(Layer::kInput).sum();
}

void expect_gradients(const Layer& layer, double times) {
  const auto weight = Layer::kInput.sum(0).expand({5, 3}) * times;
  EXPECT_TRUE(at::allclose(full_tensor(layer.unit->leaves()[0].grad()), weight, 1e-6, 1e-6));
  expect_equal(full_tensor(layer.unit->leaves()[1].grad()), at::full({5}, 4 * times));
}

/// The first of a node's gradients can be added, and the second one cannot.
struct SecondToSparse : torch::autograd::FunctionPreHook {
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    return {gradients[0], gradients[1].to_sparse()};
  }
};

TEST(UnitBackward, AStepThatIsTriedAgainAfterAFailureAddsNothingTwice) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    layer.unit->set_requires_gradient_sync(false);
    loss_of(layer).backward();
    layer.unit->enter(false);
    layer.parameters[1].grad_fn()->add_pre_hook(std::make_unique<SecondToSparse>());
    const auto y = layer.parameters[0].sum() + layer.parameters[1].sum();
    layer.unit->leave({y});
    expect_contains(error_text([&] { y.backward(); }), "dense gradients are required");
    EXPECT_FALSE(layer.unit->is_gathered());
    EXPECT_TRUE(layer.parameters[0].is_same(layer.unit->leaves()[0]));
    loss_of(layer).backward();
    layer.unit->set_requires_gradient_sync(true);
    loss_of(layer).backward();
    expect_gradients(layer, 2);
  });
}

/// A pass whose backward fails after the unit's: the nodes of x run after those of the unit.
void fail_in_backward(Layer& layer) {
  auto x = at::clone(Layer::kInput).requires_grad_() * 1;
  x.register_hook([](const at::Tensor&) -> at::Tensor { TORCH_CHECK(false, "stop"); });
  layer.unit->enter(false);
  auto y = at::linear(x, layer.parameters[0], layer.parameters[1]);
  layer.unit->leave({y});
  EXPECT_ANY_THROW(y.sum().backward());
}

TEST(UnitBackward, APassThatFailsElsewhereDropsWhatItHasCollected) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    layer.unit->set_requires_gradient_sync(false);
    fail_in_backward(layer);
    layer.unit->set_requires_gradient_sync(true);
    loss_of(layer).backward();
    expect_gradients(layer, 1);
  });
}

TEST(UnitBackward, APassThatFailsDropsTheSumsOfShardsThatTheReplicasHaveNotReduced) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh, {.mesh_dim = "", .replicate_dim = mesh.name(1)});
    layer.unit->set_requires_all_reduce(false);
    loss_of(layer).backward();
    fail_in_backward(layer);
    layer.unit->set_requires_all_reduce(true);
    loss_of(layer).backward();
    expect_gradients(layer, 1);
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
