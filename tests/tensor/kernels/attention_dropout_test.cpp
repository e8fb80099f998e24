#include "weft/tensor/kernels/attention_dropout.h"

#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/random_state.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace attention_dropout_test {
using namespace weft::testing;

constexpr double kDropout = 0.4;

/// Query, key, value and mask, of which the last is optional.
using Attend = std::function<at::Tensor(const Values& in)>;

/// The output and the gradients of query, key and value, each with this placement; the mask is replicated.
Values computed(const Values& global, const DeviceMesh& mesh, Placement placement, const Attend& attend) {
  manual_seed(3);
  Values in;
  for (size_t i = 0; i < global.size(); ++i) {
    in.push_back(distribute_tensor(global[i].to(mesh.device_type()), mesh, {i < 3 ? placement : Replicate()}));
    in.back().set_requires_grad(i < 3);
  }
  const auto output = attend(in);
  const auto results = torch::autograd::grad({output.square().sum()}, {in[0], in[1], in[2]});
  Values all = {full_tensor(output.detach()).cpu()};
  for (const auto& gradient : results) {
    all.push_back(full_tensor(gradient).cpu());
  }
  return all;
}

/// Expects of attention, under every placement on two ranks, what operators that are called one by one compute on the CPU.
void expect_as_operators(
    const Values& global,
    const Attend& attend,
    const Attend& by_operators,
    const std::string& device = "cpu",
    double tolerance = 1e-9) {
  Values expected;
  on_mesh({1}, [&](const DeviceMesh& mesh) { expected = computed(global, mesh, Replicate(), by_operators); });
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh(device, {2});
    for (const auto placement : {Replicate(), Shard(0), Shard(1), Shard(2), Shard(3)}) {
      const auto results = computed(global, mesh, placement, attend);
      for (size_t i = 0; i < results.size(); ++i) {
        const auto most = tolerance * expected[i].abs().max().item<double>();
        EXPECT_TRUE(at::allclose(results[i], expected[i], tolerance, most)) << placement << ", result " << i;
      }
    }
  });
}

at::Tensor operators(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const at::Tensor& hidden) {
  const auto scores = query.matmul(key.transpose(-2, -1)).div(std::sqrt(static_cast<double>(query.size(-1))));
  const auto kept = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return at::dropout(kept.softmax(-1), kDropout, /*train=*/true).matmul(value);
}

Values query_key_value(int64_t key_heads) {
  return {
      parameter({2, 4, 6, 2}).detach(), parameter({2, key_heads, 6, 2}).detach() + 1,
      parameter({2, key_heads, 6, 2}).detach() - 2};
}

TEST(AttentionDropout, DropsWhatDropoutOfTheWeightsDoesUnderEveryPlacement) {
  auto global = query_key_value(4);
  global.push_back(at::arange(36).view({6, 6}).remainder(5).ne(0)); // a row sees all keys but every fifth
  expect_as_operators(
      global, [](const Values& in) { return at::scaled_dot_product_attention(in[0], in[1], in[2], in[3], kDropout); },
      [](const Values& in) { return operators(in[0], in[1], in[2], in[3].logical_not()); });
}

TEST(AttentionDropout, OfSharedHeadsDropsWhatItDoesOfRepeatedOnes) {
  for (const int64_t key_heads : {2, 1}) {
    auto global = query_key_value(key_heads);
    global.push_back(at::ones({6, 6}, at::kBool).triu(1));
    expect_as_operators(
        global,
        [](const Values& in) {
          return at::scaled_dot_product_attention(
              in[0], in[1], in[2], {}, kDropout, /*is_causal=*/true, std::nullopt, /*enable_gqa=*/true);
        },
        [&](const Values& in) {
          const auto repeats = 4 / key_heads;
          return operators(in[0], in[1].repeat_interleave(repeats, 1), in[2].repeat_interleave(repeats, 1), in[3]);
        });
  }
}

TEST(AttentionDropout, OfShardedHeadsCommunicatesNothing) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(query_key_value(4)[0], mesh, {Shard(1)});
    const CommLog log(mesh);
    const auto output = at::scaled_dot_product_attention(x, x, x, {}, kDropout, /*is_causal=*/true);
    EXPECT_EQ(spec_of(output)->layout(), Layout({Shard(1)}));
    EXPECT_EQ(log.calls(), 0);
  });
}

#ifdef WEFT_TEST_CUDA
TEST(AttentionDropout, OnCudaDropsWhatItDoesOnTheCpu) {
  const auto attend = [](const Values& in) {
    return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, kDropout, /*is_causal=*/true);
  };
  const auto by_operators = [](const Values& in) { return operators(in[0], in[1], in[2], in[3]); };
  // ATen chooses a fused kernel for plain tensors by the dtype.
  for (const auto& [dtype, tolerance] : {std::pair(at::kDouble, 1e-9), {at::kFloat, 1e-4}, {at::kHalf, 2e-2}}) {
    Values global;
    for (const auto& each : query_key_value(4)) {
      global.push_back(each.to(dtype));
    }
    global.push_back(at::ones({6, 6}, at::kBool).triu(1));
    expect_as_operators(global, attend, by_operators, "cuda", tolerance);
  }
}
#endif

TEST(AttentionDropout, RefusesWhatAttentionRefuses) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({2, 4, 3, 2}), mesh, {Shard(1)});
    const auto attend = [&](const at::Tensor& key, const std::optional<at::Tensor>& mask, double dropout) {
      return [=] { at::scaled_dot_product_attention(x, key, x, mask, dropout); };
    };
    EXPECT_EQ(
        error_text<c10::TypeError>(attend(x.to(at::kDouble), {}, 0.5)),
        "[scaled_dot_product_attention] query, key and value of one dtype are required, but got Float, Double and "
        "Float.");
    const auto numbers = distribute_tensor(at::ones({3, 3}, at::kLong), mesh, {Replicate()});
    EXPECT_EQ(
        error_text<c10::TypeError>(attend(x, numbers, 0.5)),
        "[scaled_dot_product_attention] an attn_mask of bools, floats or the query's dtype is required, but got Long "
        "for a "
        "query of Float.");
    EXPECT_EQ(
        error_text<c10::ValueError>(attend(x, {}, 1.5)),
        "[scaled_dot_product_attention] a dropout_p in [0, 1] is required, but got 1.5.");
    EXPECT_EQ(
        error_text<c10::ValueError>(attend(distribute_tensor(at::ones({3}), mesh, {Replicate()}), {}, 0.5)),
        "[scaled_dot_product_attention] query, key and value of at least two dims are required, but got [2, 4, 3, 2], "
        "[3] "
        "and [2, 4, 3, 2].");
    EXPECT_TRUE(
        error_text<c10::Error>([&] {
          at::scaled_dot_product_attention(x, x, x, at::ones({3, 3}), 0.5);
        }).starts_with("[aten::_scaled_dot_product_attention_math] distributed and plain tensors cannot be mixed"));
  });
}

} // namespace attention_dropout_test

} // namespace weft
