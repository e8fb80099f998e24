#include "weft/overlap/fused_matmul.h"

#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/core/shard_math.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace fused_matmul_test {

using testing::error_text;
using testing::expect_contains;
using testing::expect_ended_well;
using testing::run_process_ranks;
using testing::say;

void on_ranks(int64_t size, const std::function<void(const DeviceMesh& mesh, Group& group)>& fn) {
  run_on_ranks(size, [&](int64_t) {
    const auto mesh = init_device_mesh("cpu", {size}, {"tp"});
    fn(mesh, *Communicator::of(mesh).group(mesh, {0}));
  });
}

/// Equal on all ranks that pass the same seed.
at::Tensor random(c10::IntArrayRef sizes, at::ScalarType dtype, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble).to(dtype);
}

at::Tensor local(const at::Tensor& global, int64_t dim, const Group& group) {
  const auto run = chunk(global.size(dim), group.size(), group.rank());
  return global.narrow(dim, run.begin, run.length);
}

/// Compares sums of the same terms in another order. `terms` are the sums of the terms' absolute values; each of the
/// `roundings` of both sums together may be wrong by half a unit in the last place of a number of that size.
void expect_same_sums(
    const at::Tensor& actual,
    const at::Tensor& expected,
    const at::Tensor& terms,
    int64_t roundings) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  EXPECT_TRUE(actual.is_contiguous());
  const auto half_step = actual.scalar_type() == at::kDouble ? 0x1p-53
      : actual.scalar_type() == at::kFloat                   ? 0x1p-24
                                                             : 0x1p-9;
  const auto error = (actual.to(at::kDouble) - expected.to(at::kDouble)).abs();
  EXPECT_TRUE((error <= terms.to(at::kDouble) * (half_step * static_cast<double>(roundings))).all().item<bool>())
      << actual.sizes() << " differs by " << error.max().item<double>();
}

/// The sums of the absolute values of the terms of a product.
at::Tensor terms_of(const at::Tensor& input, const at::Tensor& other, const at::Tensor& bias) {
  const auto sums = at::matmul(input.to(at::kDouble).abs(), other.to(at::kDouble).abs());
  return bias.defined() ? sums + bias.to(at::kDouble).abs() : sums;
}

at::Tensor product(const at::Tensor& input, const at::Tensor& other, const at::Tensor& bias) {
  const auto result = at::matmul(input, other);
  return bias.defined() ? result + bias : result;
}

std::vector<int64_t> lengths(int64_t size, int64_t members) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < members; ++i) {
    result.push_back(chunk(size, members, i).length);
  }
  return result;
}

struct Case {
  std::vector<int64_t> sizes; // of the gathered tensor, or of the inputs of a scatter
  int64_t dim;
  int64_t chunks = 3;
  at::ScalarType dtype = at::kFloat;
};

/// Of a number of 16 bits those in 32 do not count, and what is given is rounded after each member, or each pair.
int64_t roundings(const Case& c, int64_t inner) {
  return c.dtype == at::kBFloat16 ? 12 : 2 * inner + 12;
}

/// Against the all_gather and the matmul one after the other.
void check_gather(const DeviceMesh& mesh, Group& group, const Case& c) {
  const auto global = random(c.sizes, c.dtype, 1);
  const auto inner = c.sizes.back();
  const std::vector<at::Tensor> others = {random({inner, 8}, c.dtype, 2), random({5, inner}, c.dtype, 3).t()};
  const std::vector<at::Tensor> biases = {at::Tensor(), random({5}, c.dtype, 4)};
  const auto shard = local(global, c.dim, group);
  const auto gathered =
      all_gather(shard, mesh, {0}, c.dim, c10::IntArrayRef(lengths(c.sizes[c.dim], group.size()))).wait();
  const auto result = all_gather_matmul(
      group, shard, others, biases, {.dim = c.dim, .size = c.sizes[c.dim], .chunks = c.chunks, .keeps_gathered = true});
  EXPECT_TRUE(at::equal(result.gathered, gathered));
  for (size_t i = 0; i < others.size(); ++i) {
    const auto expected = product(gathered, others[i], biases[i]);
    expect_same_sums(result.outputs[i], expected, terms_of(gathered, others[i], biases[i]), roundings(c, inner));
  }
  // The same bits in every run.
  const auto again =
      all_gather_matmul(group, shard, others, biases, {.dim = c.dim, .size = c.sizes[c.dim], .chunks = c.chunks});
  EXPECT_FALSE(again.gathered.defined());
  const auto third =
      all_gather_matmul(group, shard, others, biases, {.dim = c.dim, .size = c.sizes[c.dim], .chunks = c.chunks});
  EXPECT_TRUE(at::equal(third.outputs[0], again.outputs[0]) && at::equal(third.outputs[1], again.outputs[1]));
}

/// Against the matmul and the reduce_scatter one after the other.
void check_scatter(const DeviceMesh& mesh, Group& group, const Case& c, ReduceOp op) {
  const auto seed = static_cast<uint64_t>(10 * group.rank());
  const auto columns = 8;
  auto second_sizes = c.sizes;
  second_sizes.back() += 2;
  const std::vector<at::Tensor> inputs = {random(c.sizes, c.dtype, seed + 1), random(second_sizes, c.dtype, seed + 2)};
  const std::vector<at::Tensor> others = {
      random({c.sizes.back(), columns}, c.dtype, seed + 3),
      random({columns, second_sizes.back()}, c.dtype, seed + 4).t()};
  const auto bias = random({columns}, c.dtype, seed + 5);
  const MatmulScatterOptions options{.dim = c.dim, .op = op, .chunks = c.chunks};
  const auto sum = product(inputs[0], others[0], bias) + at::matmul(inputs[1], others[1]);
  const auto expected = reduce_scatter(sum, mesh, {0}, c.dim, op).wait();
  const auto actual = matmul_reduce_scatter(group, inputs, others, bias, options);
  const auto terms = terms_of(inputs[0], others[0], bias) + terms_of(inputs[1], others[1], {});
  const auto all_terms = reduce_scatter(terms, mesh, {0}, c.dim, op).wait();
  const auto many = roundings(c, 2 * c.sizes.back() + 2);
  expect_same_sums(actual, expected, all_terms, many);
  EXPECT_TRUE(at::equal(matmul_reduce_scatter(group, inputs, others, bias, options), actual));
  const auto alone = reduce_scatter(at::matmul(inputs[0], others[0]), mesh, {0}, c.dim, op).wait();
  expect_same_sums(matmul_reduce_scatter(group, {inputs[0]}, {others[0]}, {}, options), alone, all_terms, many);
}

/// Every dim of two to four, even and uneven, in 1 to 7 chunks; and every dtype.
std::vector<Case> cases() {
  std::vector<Case> result;
  const std::vector<std::vector<int64_t>> shapes = {{24, 16}, {7, 5}, {2, 12, 8}, {3, 70, 5}, {2, 3, 5, 8}, {1, 13, 6}};
  for (const auto& sizes : shapes) {
    for (int64_t dim = 0; dim < static_cast<int64_t>(sizes.size()); ++dim) {
      for (int64_t chunks = 1; chunks <= 7; ++chunks) {
        result.push_back({sizes, dim, chunks, chunks % 2 == 0 ? at::kFloat : at::kDouble});
      }
      result.push_back({sizes, dim, 3, at::kBFloat16});
    }
  }
  return result;
}

TEST(FusedMatmul, AGatherIsTheCollectiveAndTheMatmulOneAfterTheOther) {
  for (const int64_t members : {1, 2, 3, 4}) {
    on_ranks(members, [&](const DeviceMesh& mesh, Group& group) {
      for (const auto& c : cases()) {
        check_gather(mesh, group, c);
      }
    });
  }
}

TEST(FusedMatmul, AScatterIsTheMatmulAndTheCollectiveOneAfterTheOther) {
  for (const int64_t members : {1, 2, 3, 4}) {
    on_ranks(members, [&](const DeviceMesh& mesh, Group& group) {
      for (const auto& c : cases()) {
        check_scatter(mesh, group, c, ReduceOp::Sum);
        check_scatter(mesh, group, c, ReduceOp::Avg);
      }
    });
  }
}

RANK_ROLE(checks_fused_matmuls) {
  const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
  auto& group = *Communicator::of(mesh).group(mesh, {0});
  for (const auto& c : cases()) {
    check_gather(mesh, group, c);
    check_scatter(mesh, group, c, ReduceOp::Sum);
  }
  say(::testing::Test::HasFailure() ? "wrong" : "right");
}

TEST(FusedMatmul, ProcessesGetTheSame) {
  const auto ranks = run_process_ranks("checks_fused_matmuls", 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(ranks[rank].has_line("right")) << ranks[rank].output;
    expect_ended_well(ranks, rank);
  }
}

TEST(FusedMatmul, ASumIsReducedAsItIsCast) {
  for (const int64_t members : {2, 3}) {
    on_ranks(members, [&](const DeviceMesh& mesh, Group& group) {
      const auto x = random({7, 5}, at::kBFloat16, 1 + group.rank());
      const auto w = random({5, 4}, at::kBFloat16, 7);
      for (const int64_t dim : {0, 1}) {
        const auto expected = reduce_scatter(at::mm(x, w).to(at::kFloat), mesh, {0}, dim, ReduceOp::Sum).wait();
        const auto actual = matmul_reduce_scatter(group, {x}, {w}, {}, {.dim = dim, .chunks = 2, .dtype = at::kFloat});
        ASSERT_EQ(actual.scalar_type(), at::kFloat);
        EXPECT_TRUE(at::allclose(actual, expected, 1e-5, 1e-5));
      }
    });
  }
}

TEST(FusedMatmul, EqualShardsNeedNoSize) {
  on_ranks(2, [&](const DeviceMesh&, Group& group) {
    const auto result = all_gather_matmul(group, at::ones({3, 4}), {at::ones({4, 2})}, {}, {});
    EXPECT_TRUE(at::equal(result.outputs[0], at::full({6, 2}, 4.0)));
    EXPECT_FALSE(result.gathered.defined());
  });
}

TEST(FusedMatmul, AnInnerDimOfNothingGivesTheBias) {
  on_ranks(2, [&](const DeviceMesh&, Group& group) {
    const auto result =
        all_gather_matmul(group, at::ones({3, 0}), {at::ones({0, 2})}, {at::full({2}, 7.0)}, {.dim = 1});
    EXPECT_TRUE(at::equal(result.outputs[0], at::full({3, 2}, 7.0)));
  });
}

TEST(FusedMatmul, TensorsThatNeedGradientsAreNotTracked) {
  on_ranks(2, [&](const DeviceMesh&, Group& group) {
    const auto x = at::ones({2, 4}).requires_grad_(true);
    const auto w = at::ones({4, 2}).requires_grad_(true);
    EXPECT_FALSE(all_gather_matmul(group, x, {w}, {}, {}).outputs[0].requires_grad());
    EXPECT_FALSE(matmul_reduce_scatter(group, {x}, {w}, {}, {}).requires_grad());
  });
}

TEST(FusedMatmul, TheBytesAreThoseOfTheCollective) {
  on_ranks(3, [&](const DeviceMesh& mesh, Group& group) {
    const auto x = at::ones({6, 4});
    const auto w = at::ones({4, 5});
    CommLog log(mesh);
    all_gather_matmul(group, x, {w, w}, {}, {.dim = 0, .chunks = 2, .keeps_gathered = true});
    EXPECT_EQ(log.bytes(), 2 * 6 * 4 * 4);
    log.clear();
    matmul_reduce_scatter(group, {x}, {w}, {}, {.dim = 0, .chunks = 2});
    EXPECT_EQ(log.bytes(), 2 * 2 * 5 * 4);
  });
}

TEST(FusedMatmul, ArgumentsOfAGatherThatDoNotFitAreErrors) {
  on_ranks(1, [&](const DeviceMesh&, Group& group) {
    const auto x = at::ones({3, 4});
    const auto w = at::ones({4, 2});
    const auto text = [&](const at::Tensor& shard, std::vector<at::Tensor> others, std::vector<at::Tensor> biases,
                          GatherMatmulOptions options) {
      return error_text<c10::ValueError>([&] { all_gather_matmul(group, shard, others, biases, options); });
    };
    const std::string where = "[all_gather_matmul] ";
    EXPECT_EQ(text(at::ones({4}), {w}, {}, {}), where + "a shard of at least two dims is required, but got [4].");
    EXPECT_EQ(text(x, {w}, {}, {.dim = 2}), where + "a dim in [0, 2) is required, but got 2.");
    EXPECT_EQ(text(x, {w}, {}, {.dim = -1}), where + "a dim in [0, 2) is required, but got -1.");
    EXPECT_EQ(text(x, {w}, {}, {.chunks = 0}), where + "at least one chunk is required, but got 0.");
    EXPECT_EQ(text(x, {}, {}, {}), where + "at least one other is required, but got none.");
    EXPECT_EQ(text(x, {at::ones({5, 2})}, {}, {}), where + "an other of [4, columns] is required, but got [5, 2].");
    EXPECT_EQ(text(x, {at::ones({4})}, {}, {}), where + "an other of [4, columns] is required, but got [4].");
    EXPECT_EQ(text(x, {w}, {w, w}, {}), where + "as many biases as others are required, or none, but got 2 for 1.");
    EXPECT_EQ(
        text(x, {w}, {at::ones({3})}, {}),
        where + "a bias of [2] is required, one number per column of the other, but got [3].");
    EXPECT_EQ(
        text(x, {w}, {}, {.size = 5}),
        where +
            "member 0 of group tp (ranks 0) holds 5 of the 5 indices of dim 0, but got a shard of [3, 4]. Divide the "
            "dim as "
            "torch.chunk does.");
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { all_gather_matmul(group, x, {w.to(at::kDouble)}, {}, {}); }),
        where + "all tensors must have one dtype and device, but got f32 on cpu and f64 on cpu. Convert them first.");
  });
}

TEST(FusedMatmul, ArgumentsOfAScatterThatDoNotFitAreErrors) {
  on_ranks(1, [&](const DeviceMesh&, Group& group) {
    const auto x = at::ones({3, 4});
    const auto w = at::ones({4, 2});
    const auto text = [&](std::vector<at::Tensor> inputs, std::vector<at::Tensor> others, const at::Tensor& bias,
                          MatmulScatterOptions options) {
      return error_text<c10::ValueError>([&] { matmul_reduce_scatter(group, inputs, others, bias, options); });
    };
    const std::string where = "[matmul_reduce_scatter] ";
    EXPECT_EQ(text({}, {}, {}, {}), where + "as many others as inputs are required, at least one, but got 0 for 0.");
    EXPECT_EQ(
        text({x, x}, {w}, {}, {}), where + "as many others as inputs are required, at least one, but got 1 for 2.");
    EXPECT_EQ(text({at::ones({4})}, {w}, {}, {}), where + "an input of at least two dims is required, but got [4].");
    EXPECT_EQ(text({x}, {at::ones({})}, {}, {}), where + "an other of [4, columns] is required, but got [].");
    EXPECT_EQ(text({x}, {w}, {}, {.dim = -1}), where + "a dim in [0, 2) is required, but got -1.");
    EXPECT_EQ(text({x}, {w}, {}, {.op = ReduceOp::Max}), where + "the reduction must be sum or avg, but got max.");
    EXPECT_EQ(
        text({x, at::ones({2, 4})}, {w, w}, {}, {}),
        where + "all inputs must be alike but for their last dim, but got [3, 4] and [2, 4].");
    EXPECT_EQ(
        text({x, x}, {w, at::ones({4, 3})}, {}, {}),
        where + "all others must have as many columns, but got [4, 2] and [4, 3].");
    EXPECT_EQ(
        text({x}, {w}, at::ones({2, 1}), {}),
        where + "a bias of [2] is required, one number per column of the other, but got [2, 1].");
  });
}

} // namespace fused_matmul_test

} // namespace weft
