#include "weft/overlap/fused_scaled_matmul.h"

#include "tests/support/error_text.h"
#include "tests/support/fault_roles.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/core/shard_math.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace weft {

namespace fused_scaled_matmul_test {

using testing::error_text;
using testing::expect_contains;
using testing::expect_ended_well;
using testing::run_process_ranks;
using testing::say;

void on_ranks(int64_t size, const std::function<void(Group& group)>& fn) {
  run_on_ranks(size, [&](int64_t) {
    const auto mesh = init_device_mesh("cpu", {size}, {"tp"});
    fn(*Communicator::of(mesh).group(mesh, {0}));
  });
}

/// Equal on all ranks that pass the same seed.
at::Tensor random(c10::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat);
}

at::Tensor eight_bits(c10::IntArrayRef sizes, uint64_t seed) {
  return random(sizes, seed).to(at::kFloat8_e4m3fn);
}

at::Tensor local(const at::Tensor& global, int64_t dim, const Group& group) {
  const auto run = chunk(global.size(dim), group.size(), group.rank());
  return global.narrow(dim, run.begin, run.length);
}

at::Tensor row_scale(c10::IntArrayRef sizes, uint64_t seed) {
  auto scale_sizes = sizes.vec();
  scale_sizes.back() = 1;
  return random(scale_sizes, seed).abs() + 0.5;
}

/// With a scale per column, where the left-hand side has one per row, and one number otherwise.
ScaledOther scaled_other(int64_t inner, int64_t columns, bool per_row, uint64_t seed) {
  return {
      .values = eight_bits({columns, inner}, seed).t(),
      .scale = per_row ? random({1, columns}, seed + 1).abs() + 0.5 : at::full({}, 0.25),
      .bias = random({columns}, seed + 2).to(at::kBFloat16),
      .out_dtype = at::kFloat};
}

/// The definition: the values times their scales, multiplied.
at::Tensor plain_product(const at::Tensor& input, const at::Tensor& scale, const ScaledOther& other) {
  return at::matmul(input.to(at::kFloat) * scale, other.values.to(at::kFloat) * other.scale) + other.bias;
}

enum class ScaleKind : uint8_t { PerRowOfShard, PerRowOfWhole, OneNumber };

void check_gather(Group& group, const std::vector<int64_t>& sizes, int64_t dim, int64_t chunks, ScaleKind kind) {
  const auto global = eight_bits(sizes, 1);
  const bool per_row = kind != ScaleKind::OneNumber;
  const auto global_scale = per_row ? row_scale(sizes, 2) : at::full({}, 1.5);
  const auto scale = kind == ScaleKind::PerRowOfShard ? local(global_scale, dim, group) : global_scale;
  const std::vector<ScaledOther> others = {
      scaled_other(sizes.back(), 16, per_row, 3), scaled_other(sizes.back(), 32, per_row, 6)};
  const auto result = all_gather_scaled_matmul(
      group, local(global, dim, group), scale, others,
      {.dim = dim, .size = sizes[dim], .chunks = chunks, .keeps_gathered = true});
  EXPECT_TRUE(at::equal(result.gathered.view(at::kByte), global.view(at::kByte)));
  for (size_t i = 0; i < others.size(); ++i) {
    const auto expected = plain_product(global, global_scale, others[i]);
    EXPECT_EQ(result.outputs[i].scalar_type(), at::kFloat);
    EXPECT_TRUE(result.outputs[i].is_contiguous());
    EXPECT_TRUE(at::allclose(result.outputs[i], expected, 1e-5, 1e-4))
        << (result.outputs[i] - expected).abs().max().item<float>();
  }
}

void check_scatter(Group& group, const std::vector<int64_t>& sizes, int64_t dim, int64_t chunks, bool per_row) {
  at::Tensor total;
  at::Tensor own;
  at::Tensor own_scale;
  ScaledOther own_other;
  for (int64_t member = 0; member < group.size(); ++member) {
    const auto seed = static_cast<uint64_t>(20 * member);
    const auto input = eight_bits(sizes, seed);
    const auto scale = per_row ? row_scale(sizes, seed + 1) : at::full({}, 1.5);
    const auto other = scaled_other(sizes.back(), 16, per_row, seed + 2);
    const auto product = plain_product(input, scale, other);
    total = member == 0 ? product : total + product;
    if (member == group.rank()) {
      own = input;
      own_scale = scale;
      own_other = other;
    }
  }
  const auto output = scaled_matmul_reduce_scatter(
      group, own, own_scale, own_other, {.dim = dim, .op = ReduceOp::Avg, .chunks = chunks});
  const auto expected = local(total / group.size(), dim, group);
  ASSERT_EQ(output.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(output, expected, 1e-5, 1e-4)) << (output - expected).abs().max().item<float>();
}

void check_all(Group& group) {
  const std::vector<std::vector<int64_t>> shapes = {{24, 16}, {7, 32}, {2, 12, 16}, {3, 5, 16}};
  for (const auto& sizes : shapes) {
    const auto last = static_cast<int64_t>(sizes.size()) - 1;
    for (int64_t dim = 0; dim <= last; ++dim) {
      for (const int64_t chunks : {1, 3}) {
        if (dim < last) {
          check_gather(group, sizes, dim, chunks, ScaleKind::PerRowOfShard);
          check_gather(group, sizes, dim, chunks, ScaleKind::PerRowOfWhole);
          check_gather(group, sizes, dim, chunks, ScaleKind::OneNumber);
        }
        check_scatter(group, sizes, dim, chunks, /*per_row=*/true);
        check_scatter(group, sizes, dim, chunks, /*per_row=*/false);
      }
    }
  }
}

TEST(FusedScaledMatmul, IsTheProductOfTheScaledNumbers) {
  for (const int64_t members : {1, 2, 3, 4}) {
    on_ranks(members, check_all);
  }
}

RANK_ROLE(checks_scaled_matmuls) {
  const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
  check_all(*Communicator::of(mesh).group(mesh, {0}));
  say(::testing::Test::HasFailure() ? "wrong" : "right");
}

TEST(FusedScaledMatmul, ProcessesGetTheSame) {
  const auto ranks = run_process_ranks("checks_scaled_matmuls", 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(ranks[rank].has_line("right")) << ranks[rank].output;
    expect_ended_well(ranks, rank);
  }
}

TEST(FusedScaledMatmul, ShardsOfOneRowEachHaveAScaleEach) {
  on_ranks(2, [](Group& group) {
    const auto scale = at::full({1, 1}, static_cast<double>(group.rank() + 1));
    const ScaledOther other{
        .values = at::ones({16, 16}).to(at::kFloat8_e4m3fn).t(), .scale = at::ones({1, 16}), .out_dtype = at::kFloat};
    const auto shard = at::ones({1, 16}).to(at::kFloat8_e4m3fn);
    const auto output = all_gather_scaled_matmul(group, shard, scale, {other}, {}).outputs[0];
    EXPECT_EQ(output[0][0].item<float>(), 16);
    EXPECT_EQ(output[1][0].item<float>(), 32);
  });
}

TEST(FusedScaledMatmul, ArgumentsThatDoNotFitAreErrors) {
  on_ranks(1, [](Group& group) {
    const auto x = eight_bits({4, 16}, 1);
    const auto one = at::ones({});
    const auto other = scaled_other(16, 16, /*per_row=*/false, 2);
    const auto gather = [&](const at::Tensor& scale, const ScaledOther& right, GatherMatmulOptions options) {
      return error_text<c10::ValueError>([&] { all_gather_scaled_matmul(group, x, scale, {right}, options); });
    };
    const std::string gathering = "[all_gather_scaled_matmul] ";
    EXPECT_EQ(
        gather(at::ones({3, 1}), other, {}),
        gathering +
            "a scale of one number, of one per row of the shard [4, 16] or of one per row of the gathered tensor "
            "[4, 16] is required, but got [3, 1].");
    EXPECT_EQ(
        gather(one, other, {.dim = 1}),
        gathering + "a dim before the last is required, but got 1 of [4, 16]. Gather first and multiply then.");
    auto wrong = other;
    wrong.scale = at::ones({16, 1});
    EXPECT_EQ(
        gather(one, wrong, {}),
        gathering + "a scale of the other of one number or [1, 16] is required, but got [16, 1].");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { all_gather_scaled_matmul(group, x, one, {}, {}); }),
        gathering + "at least one other is required, but got none.");

    const std::string scattering = "[scaled_matmul_reduce_scatter] ";
    const auto scatter = [&](const at::Tensor& scale, const ScaledOther& right, MatmulScatterOptions options) {
      return error_text([&] { scaled_matmul_reduce_scatter(group, x, scale, right, options); });
    };
    EXPECT_EQ(
        scatter(at::ones({3, 1}), other, {}),
        scattering + "a scale of one number or of one per row of the input [4, 16] is required, but got [3, 1].");
    EXPECT_EQ(
        scatter(one, other, {.op = ReduceOp::Max}), scattering + "the reduction must be sum or avg, but got max.");
    EXPECT_EQ(
        scatter(one, other, {.dtype = at::kFloat}),
        scattering + "the dtype of a scaled product is its out_dtype, but got another, f32.");
    wrong = other;
    wrong.out_dtype = std::nullopt;
    expect_contains(scatter(one, wrong, {}), scattering + "an out_dtype of more than 8 bits is required, but got ");
  });
}

TEST(FusedScaledMatmul, OneNumberWithAllDimsIsRefusedWhereShardsDiffer) {
  on_ranks(2, [](Group& group) {
    const auto shard = local(eight_bits({3, 16}, 1), 0, group);
    // Only member 0 could tell it from a scale per row.
    if (group.rank() == 0) {
      const auto text = error_text<c10::ValueError>([&] {
        all_gather_scaled_matmul(group, shard, at::ones({1, 1}), {scaled_other(16, 16, false, 2)}, {.size = 3});
      });
      expect_contains(text, "but got [1, 1].");
    }
  });
}

} // namespace fused_scaled_matmul_test

} // namespace weft
