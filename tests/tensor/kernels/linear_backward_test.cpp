#include "tests/support/layout_cases.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace linear_backward_test {
using namespace weft::testing;
using Tensors = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Tensors&)>;

/// Small integers, so that sums are exact in any order.
at::Tensor whole_numbers(c10::IntArrayRef sizes) {
  return (at::arange(c10::multiply_integers(sizes), at::kFloat).remainder(7) - 3).view(sizes);
}

Tensors gradients_of(const Function& function, const Tensors& inputs) {
  Tensors leaves;
  for (const auto& input : inputs) {
    leaves.push_back(input.clone().set_requires_grad(true));
  }
  const auto output = function(leaves);
  (output * whole_numbers(output.sizes())).sum().backward();
  Tensors gradients;
  for (const auto& leaf : leaves) {
    gradients.push_back(leaf.grad());
  }
  return gradients;
}

/// Compares with the single device for every combination of R, S and P of the inputs, on one rank and on two.
void expect_gradients_of_single_device(const Function& function, const Tensors& inputs) {
  const auto expected = gradients_of(function, inputs);
  std::vector<std::vector<Layout>> combinations = {{}};
  for (const auto& input : inputs) {
    std::vector<Placement> placements = {Replicate(), Partial()};
    for (int64_t d = 0; d < input.dim(); ++d) {
      placements.push_back(Shard(d));
    }
    std::vector<std::vector<Layout>> longer;
    for (const auto& combination : combinations) {
      for (const auto& layout : all_layouts(1, input.dim(), placements)) {
        longer.push_back(combination);
        longer.back().push_back(layout);
      }
    }
    combinations = std::move(longer);
  }
  const auto compare_on_rank = [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {current_world()->size()}, {"a"});
    for (const auto& layouts : combinations) {
      Tensors leaves;
      std::string text = "inputs";
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto local = local_by_definition(inputs[i], layouts[i], mesh.shape(), mesh.coordinate());
        leaves.push_back(from_local(local, mesh, layouts[i], inputs[i].sizes()).detach().set_requires_grad(true));
        text += c10::str(" ", inputs[i].sizes(), " ", layouts[i]);
      }
      const auto output = full_tensor(function(leaves));
      (output * whole_numbers(output.sizes())).sum().backward();
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto actual = full_tensor(leaves[i].grad());
        EXPECT_TRUE(at::equal(actual, expected[i])) << text << ", rank " << rank << ", gradient " << i << " is\n"
                                                    << actual << "\ninstead of\n"
                                                    << expected[i];
      }
    }
  };
  run_on_ranks(1, compare_on_rank);
  run_on_ranks(2, compare_on_rank);
}

TEST(LinearBackward, ASequenceShardedInputTimesAColumnShardedWeightIsOneAllGather) {
  const auto x = whole_numbers({2, 4, 6});
  const auto w = whole_numbers({8, 6});
  const auto b = whole_numbers({8});
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto weight = distribute_tensor(w, mesh, {Shard(0)}).set_requires_grad(true);
    const auto bias = distribute_tensor(b, mesh, {Shard(0)}).set_requires_grad(true);
    const auto input = distribute_tensor(x, mesh, {Shard(1)});
    const CommLog log(mesh);
    const auto output = at::linear(input, weight, bias);
    to_local(output);
    const auto rows = log.rows();
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    if (rows.size() == 1) {
      EXPECT_EQ(rows[0].collective, Collective::AllGather);
      EXPECT_EQ(rows[0].mesh_dims, "tp");
    }
    EXPECT_EQ(spec_of(output)->layout(), Layout{Shard(2)});
    EXPECT_TRUE(at::equal(full_tensor(output), at::linear(x, w, b)));
  });
}

TEST(LinearBackward, GradientsOfParametersHaveTheParametersLayouts) {
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto weight = distribute_tensor(whole_numbers({8, 6}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto bias = distribute_tensor(whole_numbers({8}), mesh, {Shard(0)}).set_requires_grad(true);
    at::linear(distribute_tensor(whole_numbers({2, 4, 6}), mesh, {Shard(1)}), weight, bias).sum().backward();
    EXPECT_EQ(spec_of(weight.grad())->layout(), Layout{Shard(0)});
    EXPECT_EQ(spec_of(bias.grad())->layout(), Layout{Shard(0)});
  });
}

TEST(LinearBackward, OnlyTheGradientsThatAreWantedAreMade) {
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto input = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(whole_numbers({8, 6}), mesh, {Replicate()}).set_requires_grad(true);
    at::linear(input, weight).sum().backward();
    EXPECT_FALSE(input.grad().defined());
    EXPECT_TRUE(at::equal(full_tensor(weight.grad()), whole_numbers({4, 6}).sum(0).expand({8, 6})));
  });
}

class LinearBackwardOfInput : public ::testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(LinearBackwardOfInput, GradientsOfLinearEqualTheSingleDevice) {
  const auto linear = [](const Tensors& inputs) {
    return at::linear(inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : at::Tensor());
  };
  const auto input = whole_numbers(GetParam());
  expect_gradients_of_single_device(linear, {input, whole_numbers({3, 4})});
  expect_gradients_of_single_device(linear, {input, whole_numbers({3, 4}), whole_numbers({3})});
}

TEST_P(LinearBackwardOfInput, AGradientThatIsNotContiguousIsFine) {
  expect_gradients_of_single_device(
      [](const Tensors& inputs) {
        const auto output = at::linear(inputs[0], inputs[1]);
        return output.dim() < 2 ? output : output.transpose(0, -1) * 2;
      },
      {whole_numbers(GetParam()), whole_numbers({3, 4})});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes,
    LinearBackwardOfInput,
    ::testing::Values(std::vector<int64_t>{4}, std::vector<int64_t>{5, 4}, std::vector<int64_t>{2, 3, 4}));

TEST(LinearBackward, GradientsOfAWeightThatIsAVectorEqualTheSingleDevice) {
  expect_gradients_of_single_device(
      [](const Tensors& inputs) { return at::linear(inputs[0], inputs[1]); },
      {whole_numbers({5, 4}), whole_numbers({4})});
}

using Shapes = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
class MatmulBackward : public ::testing::TestWithParam<Shapes> {};

TEST_P(MatmulBackward, GradientsOfMatmulEqualTheSingleDevice) {
  expect_gradients_of_single_device(
      [](const Tensors& inputs) { return at::matmul(inputs[0], inputs[1]); },
      {whole_numbers(GetParam().first), whole_numbers(GetParam().second)});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes,
    MatmulBackward,
    ::testing::Values(
        Shapes{{4}, {4}},
        Shapes{{3, 4}, {4}},
        Shapes{{4}, {4, 3}},
        Shapes{{3, 4}, {4, 5}},
        Shapes{{2, 3, 4}, {4}},
        Shapes{{4}, {2, 4, 3}},
        Shapes{{2, 3, 4}, {4, 5}},
        Shapes{{3, 4}, {2, 4, 5}},
        Shapes{{2, 3, 4}, {1, 4, 5}},
        Shapes{{2, 1, 3, 4}, {3, 4, 2}}));

} // namespace linear_backward_test

} // namespace weft
