#include "weft/fully_sharded/unit.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace unit_test {
using namespace weft::testing;

const at::Tensor kWeight = whole_numbers({5, 3}) / 8;
const at::Tensor kBias = whole_numbers({5}) / 4;
const at::Tensor kInput = whole_numbers({4, 3}) / 4;

/// A linear layer as a unit.
struct Layer {
  std::vector<at::Tensor> parameters;
  std::shared_ptr<Unit> unit;

  explicit Layer(const DeviceMesh& mesh, UnitOptions options = {}) {
    options.mesh_dim = mesh.name(0);
    auto leaves = shard_parameters(
        {at::clone(kWeight).requires_grad_(), at::clone(kBias).requires_grad_()}, mesh, options.mesh_dim);
    for (auto& leaf : leaves) {
      leaf.requires_grad_();
    }
    parameters = leaves;
    unit = std::make_shared<Unit>(leaves, options, [this](c10::ArrayRef<at::Tensor> put) { parameters = put.vec(); });
  }
  at::Tensor forward(const at::Tensor& x) {
    unit->enter(unit->is_global(x));
    auto y = at::linear(x, parameters[0], parameters[1]);
    unit->leave({y});
    return y;
  }
};

at::Tensor loss_of(const at::Tensor& output) {
  return (output * output).mean();
}

std::vector<at::Tensor> expected_gradients() {
  const auto weight = at::clone(kWeight).requires_grad_();
  const auto bias = at::clone(kBias).requires_grad_();
  loss_of(at::linear(kInput, weight, bias)).backward();
  return {weight.grad(), bias.grad()};
}

void expect_gradients(const Layer& layer) {
  const auto expected = expected_gradients();
  for (size_t k = 0; k < 2; ++k) {
    const auto& gradient = layer.unit->leaves()[k].grad();
    ASSERT_TRUE(gradient.defined());
    EXPECT_EQ(as_dtensor(gradient)->spec(), as_dtensor(layer.unit->leaves()[k])->spec());
    EXPECT_TRUE(at::allclose(full_tensor(gradient), expected[k], 1e-6, 1e-7));
  }
}

TEST(Unit, GradientsInTheGlobalViewAreThoseOfTheGlobalBatch) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    loss_of(layer.forward(distribute_tensor(kInput, mesh, {Shard(0)}))).backward();
    expect_gradients(layer);
  });
}

TEST(Unit, GradientsOfOwnDataAreAveraged) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    loss_of(layer.forward(kInput.chunk(2)[mesh.rank(0)])).backward();
    expect_gradients(layer);
  });
}

TEST(Unit, AStepGathersTwiceAndReducesOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    const CommLog log(mesh);
    loss_of(layer.forward(kInput.chunk(2)[mesh.rank(0)])).backward();
    std::map<Collective, int64_t> calls;
    for (const auto& row : log.rows()) {
      calls[row.collective] += row.calls;
    }
    EXPECT_EQ(calls, (std::map<Collective, int64_t>{{Collective::AllGather, 2}, {Collective::ReduceScatter, 1}}));
  });
}

TEST(Unit, GradientsAreAddedUpUntilTheyAreSynchronised) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    const auto rows = kInput.chunk(4);
    layer.unit->set_requires_gradient_sync(false);
    (loss_of(layer.forward(rows[2 * mesh.rank(0)])) / 2).backward();
    EXPECT_FALSE(layer.unit->leaves()[0].grad().defined());
    layer.unit->set_requires_gradient_sync(true);
    (loss_of(layer.forward(rows[2 * mesh.rank(0) + 1])) / 2).backward();
    expect_gradients(layer);
  });
}

TEST(Unit, AForwardThatRaisesLeavesTheShards) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const Layer layer(mesh);
    layer.unit->enter(false);
    EXPECT_FALSE(is_dtensor(layer.parameters[0]));
    layer.unit->leave({});
    EXPECT_TRUE(layer.parameters[0].is_same(layer.unit->leaves()[0]));
  });
}

TEST(Unit, RaisesWhereParametersWereWrittenToBeforeBackward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh);
    const auto loss = loss_of(layer.forward(kInput));
    {
      const at::NoGradGuard no_graph;
      layer.unit->leaves()[1].add_(1);
    }
    const auto text = error_text([&] { loss.backward(); });
    EXPECT_NE(text.find("[fully_shard] parameters as they were in forward are required in backward"), std::string::npos)
        << text;
  });
}

TEST(Unit, RaisesWhereForwardWritesToAParameter) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const Layer layer(mesh);
    const at::NoGradGuard no_graph;
    layer.unit->enter(false);
    layer.parameters[1].add_(1);
    const auto text = error_text([&] { layer.unit->leave({}); });
    EXPECT_NE(text.find("[fully_shard] parameters that are not written to while they are gathered"), std::string::npos)
        << text;
  });
}

} // namespace unit_test
} // namespace weft
