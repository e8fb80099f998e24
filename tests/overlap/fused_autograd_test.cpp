#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/sample_tensors.h"
#include "weft/comm/comm_log.h"
#include "weft/overlap/mesh_matmul.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace fused_autograd_test {
using namespace weft::testing;
using Tensors = std::vector<at::Tensor>;

/// The leaf of a rank, which every rank can compute: small integers, so that all sums are exact.
at::Tensor leaf(int64_t rank, c10::IntArrayRef sizes, bool needs_gradient = true) {
  return sample(rank, sizes, at::kDouble).set_requires_grad(needs_gradient);
}

/// A loss in which every element of an output has another weight.
at::Tensor loss_of(const at::Tensor& output, int64_t rank) {
  return (output * sample(rank + 7, output.sizes(), at::kDouble)).sum();
}

void expect_gradients(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    expect_equal(actual[i].grad(), expected[i].grad());
  }
}

/// The global sizes of a gather, and the tensors of one rank.
struct Gather {
  std::vector<int64_t> sizes; // of the gathered tensor
  int64_t dim;
  int64_t chunks;
  int64_t others = 2;
  bool keeps_gathered = false;
};

/// The leaves of a rank: its shard, its others and their biases, of which the second has none.
Tensors leaves_of(const Gather& gather, int64_t rank, int64_t members) {
  auto shard_sizes = gather.sizes;
  shard_sizes[gather.dim] = chunk(gather.sizes[gather.dim], members, rank).length;
  Tensors leaves{leaf(rank, shard_sizes)};
  for (int64_t i = 0; i < gather.others; ++i) {
    leaves.push_back(leaf(rank + i, {gather.sizes.back(), 3 + i}));
  }
  leaves.push_back(leaf(rank, {3}));
  return leaves;
}

at::Tensor loss_of(const Gather& gather, const GatheredMatmul& result, int64_t rank) {
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    loss = loss + loss_of(result.outputs[i], rank + static_cast<int64_t>(i));
  }
  return gather.keeps_gathered ? loss + loss_of(result.gathered, rank) : loss;
}

/// On one process, by plain operators, with all ranks' leaves; gives those of one rank.
Tensors gathered_alone(const Gather& gather, int64_t rank, int64_t members) {
  std::vector<Tensors> leaves;
  Tensors shards;
  for (int64_t r = 0; r < members; ++r) {
    leaves.push_back(leaves_of(gather, r, members));
    shards.push_back(leaves[r][0]);
  }
  at::Tensor loss = at::zeros({}, at::kDouble);
  const auto gathered = at::cat(shards, gather.dim);
  for (int64_t r = 0; r < members; ++r) {
    GatheredMatmul result{{}, gathered};
    for (int64_t i = 0; i < gather.others; ++i) {
      const auto product = at::matmul(gathered, leaves[r][1 + i]);
      result.outputs.push_back(i == 0 ? product + leaves[r].back() : product);
    }
    loss = loss + loss_of(gather, result, r);
  }
  loss.backward();
  return leaves[rank];
}

void check_gather(const Gather& gather, const DeviceMesh& mesh) {
  SCOPED_TRACE(c10::str(c10::IntArrayRef(gather.sizes), " along ", gather.dim, " in ", gather.chunks));
  const auto rank = mesh.rank(0);
  const auto leaves = leaves_of(gather, rank, mesh.size());
  const auto others = at::TensorList(leaves).slice(1, gather.others);
  Tensors biases(gather.others);
  biases[0] = leaves.back();
  const auto result = all_gather_matmul(
      leaves[0], others, mesh, {0},
      {.dim = gather.dim,
       .size = gather.sizes[gather.dim],
       .chunks = gather.chunks,
       .keeps_gathered = gather.keeps_gathered},
      biases);
  EXPECT_EQ(result.gathered.defined(), gather.keeps_gathered);
  loss_of(gather, result, rank).backward();
  expect_gradients(leaves, gathered_alone(gather, rank, mesh.size()));
}

TEST(FusedAutograd, AGatherOverlappedWithMatmulsHasTheGradientsOfTheTwo) {
  for (const int64_t members : {2, 3, 4}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      check_gather({.sizes = {8, 5}, .dim = 0, .chunks = 1}, mesh);
      check_gather({.sizes = {7, 4}, .dim = 0, .chunks = 3, .others = 1}, mesh);
      check_gather({.sizes = {2, 9, 4}, .dim = 1, .chunks = 2}, mesh);
      check_gather({.sizes = {2, 3, 2, 6}, .dim = 2, .chunks = 1}, mesh);
      check_gather({.sizes = {3, 7}, .dim = 1, .chunks = 2}, mesh);
      check_gather({.sizes = {2, 3, 8}, .dim = 2, .chunks = 1, .others = 1}, mesh);
    });
  }
}

TEST(FusedAutograd, TheGatheredTensorsGradientCounts) {
  for (const int64_t members : {2, 3}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      check_gather({.sizes = {2, 7, 4}, .dim = 1, .chunks = 2, .keeps_gathered = true}, mesh);
      check_gather({.sizes = {3, 8}, .dim = 1, .chunks = 1, .keeps_gathered = true}, mesh);
      // Of nothing else.
      const auto shard = leaf(mesh.rank(0), {2, 3});
      const auto other = leaf(0, {3, 2}, false);
      const auto result = all_gather_matmul(shard, {other}, mesh, {0}, {.keeps_gathered = true});
      result.gathered.sum().backward();
      expect_equal(shard.grad(), at::full({2, 3}, mesh.size(), at::kDouble));
    });
  }
}

/// The global sizes of a scatter.
struct Scatter {
  std::vector<int64_t> sizes; // of the product
  int64_t dim;
  int64_t chunks;
  int64_t pairs = 1;
  ReduceOp op = ReduceOp::Sum;
};

/// The inputs, the others, and the bias.
Tensors leaves_of(const Scatter& scatter, int64_t rank) {
  Tensors leaves;
  auto sizes = scatter.sizes;
  for (int64_t i = 0; i < scatter.pairs; ++i) {
    sizes.back() = 4 + i;
    leaves.push_back(leaf(rank + i, sizes));
  }
  for (int64_t i = 0; i < scatter.pairs; ++i) {
    leaves.push_back(leaf(rank + 2 * i, {4 + i, scatter.sizes.back()}));
  }
  leaves.push_back(leaf(rank, {scatter.sizes.back()}));
  return leaves;
}

Tensors scattered_alone(const Scatter& scatter, int64_t rank, int64_t members) {
  std::vector<Tensors> leaves;
  auto total = at::zeros(scatter.sizes, at::kDouble);
  for (int64_t r = 0; r < members; ++r) {
    leaves.push_back(leaves_of(scatter, r));
    for (int64_t i = 0; i < scatter.pairs; ++i) {
      total = total + at::matmul(leaves[r][i], leaves[r][scatter.pairs + i]);
    }
    total = total + leaves[r].back();
  }
  total = scatter.op == ReduceOp::Avg ? total / members : total;
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (int64_t r = 0; r < members; ++r) {
    const auto shard = chunk(scatter.sizes[scatter.dim], members, r);
    loss = loss + loss_of(total.narrow(scatter.dim, shard.begin, shard.length), r);
  }
  loss.backward();
  return leaves[rank];
}

void check_scatter(const Scatter& scatter, const DeviceMesh& mesh) {
  SCOPED_TRACE(c10::str(c10::IntArrayRef(scatter.sizes), " along ", scatter.dim, " in ", scatter.chunks));
  const auto rank = mesh.rank(0);
  const auto leaves = leaves_of(scatter, rank);
  const auto all = at::TensorList(leaves);
  const auto shard = matmul_reduce_scatter(
      all.slice(0, scatter.pairs), all.slice(scatter.pairs, scatter.pairs), mesh, {0},
      {.dim = scatter.dim, .op = scatter.op, .chunks = scatter.chunks}, leaves.back());
  loss_of(shard, rank).backward();
  const auto expected = scattered_alone(scatter, rank, mesh.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_TRUE(at::allclose(leaves[i].grad(), expected[i].grad())) << i;
  }
}

TEST(FusedAutograd, MatmulsOverlappedWithAScatterHaveTheGradientsOfTheTwo) {
  for (const int64_t members : {2, 3, 4}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      check_scatter({.sizes = {8, 5}, .dim = 0, .chunks = 1}, mesh);
      check_scatter({.sizes = {7, 4}, .dim = 0, .chunks = 3, .pairs = 2}, mesh);
      check_scatter({.sizes = {2, 9, 4}, .dim = 1, .chunks = 2, .pairs = 3}, mesh);
      check_scatter({.sizes = {3, 7}, .dim = 1, .chunks = 2, .pairs = 2}, mesh);
      check_scatter({.sizes = {2, 5, 4}, .dim = 1, .chunks = 1, .op = ReduceOp::Avg}, mesh);
      check_scatter({.sizes = {2, 3, 8}, .dim = 2, .chunks = 2, .op = ReduceOp::Avg}, mesh);
    });
  }
}

TEST(FusedAutograd, ASumThatIsCastHasTheGradientsOfTheCastToo) {
  for (const int64_t members : {2, 3}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      const auto rank = mesh.rank(0);
      const auto input = leaf(rank, {6, 4});
      const auto other = leaf(rank + 1, {4, 3});
      const auto shard =
          matmul_reduce_scatter({input}, {other}, mesh, {0}, {.dim = 0, .chunks = 2, .dtype = at::kFloat}, {});
      ASSERT_EQ(shard.scalar_type(), at::kFloat);
      shard.sum().backward();
      // Every element of every member's product counts once.
      const auto ones = at::ones({6, 3}, at::kDouble);
      expect_equal(input.grad(), at::mm(ones, other.detach().t()));
      expect_equal(other.grad(), at::mm(input.detach().t(), ones));
    });
  }
}

TEST(FusedAutograd, WhatIsNotNeededIsNotCommunicated) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (int needed = 1; needed < 8; ++needed) {
      SCOPED_TRACE(needed);
      const auto shard = leaf(0, {2, 3}, (needed & 1) != 0);
      const auto other = leaf(1, {3, 4}, (needed & 2) != 0);
      const auto bias = leaf(2, {4}, (needed & 4) != 0);
      const auto output = all_gather_matmul(shard, {other}, mesh, {0}, {}, {bias}).outputs[0];
      const CommLog log(mesh);
      output.sum().backward();
      EXPECT_EQ(log.calls() > 0, shard.requires_grad());
      for (const auto& each : {shard, other, bias}) {
        EXPECT_EQ(each.grad().defined(), each.requires_grad());
      }
    }
    for (int needed = 1; needed < 8; ++needed) {
      SCOPED_TRACE(needed);
      const auto input = leaf(0, {4, 3}, (needed & 1) != 0);
      const auto other = leaf(1, {3, 4}, (needed & 2) != 0);
      const auto bias = leaf(2, {4}, (needed & 4) != 0);
      matmul_reduce_scatter({input}, {other}, mesh, {0}, {}, bias).sum().backward();
      EXPECT_TRUE(
          !input.requires_grad() || at::equal(input.grad(), at::ones({4, 4}, at::kDouble).mm(other.detach().t())));
      EXPECT_TRUE(
          !other.requires_grad() || at::equal(other.grad(), input.detach().t().mm(at::ones({4, 4}, at::kDouble))));
      EXPECT_TRUE(!bias.requires_grad() || at::equal(bias.grad(), at::full({4}, 4, at::kDouble)));
      for (const auto& each : {input, other, bias}) {
        EXPECT_EQ(each.grad().defined(), each.requires_grad());
      }
    }
  });
}

TEST(FusedAutograd, AWeightThatComesTransposedHasAContiguousGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto weight = leaf(0, {5, 3});
    all_gather_matmul(leaf(1, {2, 3}), {weight.t()}, mesh, {0}).outputs[0].sum().backward();
    EXPECT_TRUE(weight.grad().is_contiguous());
  });
}

TEST(FusedAutograd, ASecondDerivativeIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto shard = leaf(0, {2, 3});
    const auto other = leaf(1, {3, 4});
    const auto output = all_gather_matmul(shard, {other}, mesh, {0}).outputs[0];
    const auto first = torch::autograd::grad({output.sum()}, {shard}, {}, std::nullopt, /*create_graph=*/true)[0];
    EXPECT_TRUE(first.requires_grad());
    expect_contains(
        error_text<std::exception>([&] { first.sum().backward(); }),
        "[all_gather_matmul] has a first derivative only. Use all_gather or reduce_scatter and matmul where second "
        "ones "
        "are needed.");
    const auto scattered = matmul_reduce_scatter({leaf(0, {4, 3})}, {other}, mesh, {0});
    const auto of_other = torch::autograd::grad({scattered.sum()}, {other}, {}, std::nullopt, /*create_graph=*/true)[0];
    expect_contains(
        error_text<std::exception>([&] { of_other.sum().backward(); }),
        "[matmul_reduce_scatter] has a first derivative");
  });
}

TEST(FusedAutograd, TheFormsWithScalesHaveNoGradient) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("weft::scaled_matmul_reduce_scatter", "");
  const auto input = at::ones({4, 4}).set_requires_grad(true);
  const auto scale = at::ones({});
  torch::jit::Stack stack{input, scale, scale, scale, {}, {}, {}, false, "sum", int64_t{0}, int64_t{1}, "tp"};
  EXPECT_EQ(
      error_text<c10::NotImplementedError>([&] { op.callBoxed(&stack); }),
      "[weft::scaled_matmul_reduce_scatter] has no gradient, but got a tensor that requires one. Detach it, or "
      "multiply by "
      "the form without scales.");
}

} // namespace fused_autograd_test

} // namespace weft
