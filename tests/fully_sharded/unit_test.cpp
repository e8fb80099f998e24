#include "weft/fully_sharded/unit.h"

#include "tests/support/error_text.h"
#include "tests/support/linear_unit.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>
#include <torch/version.h>

#include <map>

namespace weft {

namespace unit_test {
using namespace weft::testing;

using Layer = LinearUnit;

const at::Tensor& kWeight = Layer::kWeight;
const at::Tensor& kBias = Layer::kBias;
const at::Tensor& kInput = Layer::kInput;

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

/// The calls for fully_shard alone, and the bytes that this rank has received by them.
using Traffic = std::map<Collective, std::pair<int64_t, int64_t>>;

Traffic traffic_of(const CommLog& log) {
  Traffic traffic;
  for (const auto& row : log.rows()) {
    if (row.operator_name == "fully_shard") {
      traffic[row.collective].first += row.calls;
      traffic[row.collective].second += row.bytes;
    }
  }
  return traffic;
}

TEST(Unit, AStepGathersTwiceAndReducesOnceAndMovesNoOtherBytes) {
  for (const bool reshards : {true, false}) {
    for (const bool is_global : {true, false}) {
      on_mesh({2}, [&](const DeviceMesh& mesh) {
        Layer layer(mesh, {.mesh_dim = "", .reshard_after_forward = reshards});
        const auto input = is_global ? distribute_tensor(kInput, mesh, {Shard(0)}) : kInput.chunk(2)[mesh.rank(0)];
        const CommLog log(mesh);
        loss_of(layer.forward(input)).backward();
        // The bias begins at the multiple of 64 bytes after the weight; the second rank holds what is not the first one's rows.
        constexpr int64_t kElements = 16 + 5;
        const auto rows = as_dtensor(layer.unit->leaves()[0])->spec()->layout()[0].lengths()[0];
        const auto own = mesh.rank(0) == 0 ? 3 * rows : kElements - 3 * rows;
        const int64_t gathers = reshards ? 2 : 1;
        const int64_t votes = is_global ? 0 : 2;
        EXPECT_EQ(
            traffic_of(log),
            (Traffic{
                {Collective::AllGather, {gathers, gathers * (kElements - own) * 4}},
                {Collective::ReduceScatter, {1, (own + votes) * 4}}}));
      });
    }
  }
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

TEST(Unit, WithoutAGraphNothingStaysGathered) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh, {.mesh_dim = "", .reshard_after_forward = false});
    {
      const at::NoGradGuard no_graph;
      layer.forward(kInput);
      EXPECT_FALSE(layer.unit->is_gathered());
    }
    const auto loss = loss_of(layer.forward(kInput));
    EXPECT_TRUE(layer.unit->is_gathered());
    loss.backward();
    EXPECT_FALSE(layer.unit->is_gathered());
  });
}

TEST(Unit, AWriteToOneRanksShardAfterAForwardWithoutAGraphIsGathered) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Layer layer(mesh, {.mesh_dim = "", .reshard_after_forward = false});
    const at::NoGradGuard no_graph;
    layer.forward(kInput);
    if (mesh.rank(0) == 0) {
      to_local(layer.unit->leaves()[0]).fill_(0);
    }
    const auto rows = as_dtensor(layer.unit->leaves()[0])->spec()->layout()[0].lengths()[0];
    const auto expected = at::cat({at::zeros({rows, 3}), kWeight.narrow(0, rows, 5 - rows)});
    expect_equal(layer.forward(kInput), at::linear(kInput, expected, kBias));
  });
}

TEST(Unit, AParameterThatIsAResultStaysReadableWithoutAGraphToo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const Layer layer(mesh);
    const auto returned = [&](const std::function<at::Tensor(const at::Tensor&)>& give) {
      layer.unit->enter(false);
      auto result = give(layer.parameters[0]);
      layer.unit->leave({result});
      return result;
    };
    expect_equal(returned([](const at::Tensor& weight) { return weight.detach(); }), kWeight);
    {
      const at::NoGradGuard no_graph;
      expect_equal(returned([](const at::Tensor& weight) { return weight; }), kWeight);
      const auto view = returned([](const at::Tensor& weight) { return weight.t()[0]; });
      expect_equal(view, kWeight.t()[0]);
      EXPECT_TRUE(layer.unit->is_gathered());
      layer.unit->reshard();
      if (kReadingFreedIsAnError) {
        expect_contains(error_text([&] { view.sum(); }), "a gathered parameter is required while its values are there");
      }
      returned([](const at::Tensor& weight) { return weight * 2; });
      EXPECT_FALSE(layer.unit->is_gathered()) << "after a forward that gives no parameter";
    }
  });
}

TEST(Unit, ABackwardThatBeginsAtAnUnknownResultIsAnError) {
  if (!kReadingFreedIsAnError) {
    GTEST_SKIP() << "torch " << TORCH_VERSION << " ends the process instead";
  }
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const Layer layer(mesh);
    const auto x = at::clone(kInput).requires_grad_();
    layer.unit->enter(false);
    const auto hidden = at::linear(x, layer.parameters[0], layer.parameters[1]);
    const auto known = hidden * 2;
    layer.unit->leave({known});
    expect_contains(
        error_text([&] { hidden.sum().backward(); }), "a gathered parameter is required while its values are there");
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

TEST(Unit, AGroupOfWhichARankUsesNoParameterCountsAsZeroThere) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const bool synchronises_first : {true, false}) {
      std::vector<at::Tensor> parameters; // of two dtypes, and so in two groups
      for (auto& leaf : shard_parameters({kWeight, kBias.to(at::kDouble)}, mesh, mesh.name(0))) {
        parameters.push_back(leaf.requires_grad_());
      }
      const auto leaves = parameters;
      const auto unit = std::make_shared<Unit>(
          leaves, UnitOptions{.mesh_dim = mesh.name(0)},
          [&](c10::ArrayRef<at::Tensor> put) { parameters = put.vec(); });
      const auto run = [&](bool uses_bias) {
        unit->enter(false);
        auto y = parameters[0].sum();
        y = uses_bias ? y + parameters[1].sum() : y;
        unit->leave({y});
        y.backward();
      };
      unit->set_requires_gradient_sync(synchronises_first);
      run(mesh.rank(0) == 0);
      if (!synchronises_first) {
        unit->set_requires_gradient_sync(true);
        run(false);
      }
      expect_equal(full_tensor(leaves[0].grad()), at::ones({5, 3}) * (synchronises_first ? 1 : 2));
      expect_equal(full_tensor(leaves[1].grad()), at::full({5}, 0.5, at::kDouble));
      run(false);
      expect_equal(full_tensor(leaves[1].grad()), at::full({5}, 0.5, at::kDouble)); // of none of the ranks
    }
  });
}

TEST(Unit, AParameterThatIsTheResultOfTwoForwardsIsThereForBothOfTheirBackwards) {
  const auto expected = at::clone(kWeight).requires_grad_();
  at::mm(at::mm(kInput, expected.t()), expected).sum().backward();
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const Layer layer(mesh);
    const auto table = [&] {
      layer.unit->enter(false);
      auto weight = layer.parameters[0];
      layer.unit->leave({weight});
      return weight;
    };
    for (const bool drops_graph : {false, true}) {
      const auto x = at::clone(kInput).requires_grad_();
      if (drops_graph) {
        table();
        const at::NoGradGuard no_graph;
        layer.unit->leaves()[0].mul_(1); // as the optimizer does
      }
      const auto y = at::mm(x, table().t());
      at::mm(y, table()).sum().backward();
      EXPECT_TRUE(at::allclose(full_tensor(layer.unit->leaves()[0].grad()), expected.grad(), 1e-5, 1e-5));
      EXPECT_FALSE(layer.unit->is_gathered());
      layer.unit->leaves()[0].mutable_grad().reset();
    }
  });
}

} // namespace unit_test
} // namespace weft
