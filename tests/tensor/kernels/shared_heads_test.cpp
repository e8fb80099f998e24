#include "weft/tensor/kernels/kernels.h"

#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace shared_heads_test {
using namespace weft::testing;

constexpr int64_t kSize = 2; // of a head

enum class Sharing : uint8_t { Gqa, RepeatInterleave, Expand };

/// The attention of a decoder: projections, heads, attention, projection.
at::Tensor attention(const Values& in, int64_t heads, int64_t key_heads, Sharing sharing) {
  const auto& x = in[0];
  const auto as_heads = [&](const at::Tensor& weight, int64_t count) {
    return at::linear(x, weight).view({x.size(0), x.size(1), count, kSize}).transpose(1, 2);
  };
  const auto repeats = heads / key_heads;
  const auto shared = [&](const at::Tensor& key) {
    switch (sharing) {
      case Sharing::Gqa:
        return key;
      case Sharing::RepeatInterleave:
        return key.repeat_interleave(repeats, 1);
      case Sharing::Expand:
        return key.unsqueeze(2).expand({-1, -1, repeats, -1, -1}).reshape({x.size(0), heads, x.size(1), kSize});
    }
    return key;
  };
  const auto out = at::scaled_dot_product_attention(
      as_heads(in[1], heads), shared(as_heads(in[2], key_heads)), shared(as_heads(in[3], key_heads)), {}, 0.0,
      /*is_causal=*/true, std::nullopt, /*enable_gqa=*/sharing == Sharing::Gqa);
  return at::linear(out.transpose(1, 2).flatten(2), in[4]);
}

struct Counted {
  int64_t forward;
  int64_t backward;      // without the reductions of the leaves' gradients
  std::string gradients; // these, by mesh dims
};

/// Collectives that the last rank calls: forward up to the partial result of the last projection, backward from it to
/// the gradients of the weights and the input, which are not redistributed.
Counted expect_as_plain_on(const std::vector<int64_t>& shape, int64_t heads, int64_t key_heads, Sharing sharing) {
  const auto width = heads * kSize;
  const auto scaled = [](c10::IntArrayRef sizes) { return parameter(sizes).detach() * 0.7; };
  const Values global = {
      scaled({4, 3, width}), scaled({width, width}), scaled({key_heads * kSize, width}),
      scaled({key_heads * kSize, width}).neg() * 0.5, scaled({width, width}).t().contiguous()};
  Values plain;
  for (const auto& tensor : global) {
    plain.push_back(tensor.clone().set_requires_grad(true));
  }
  const auto expected = attention(plain, heads, key_heads, sharing);
  const auto gradients = torch::autograd::grad({expected}, plain, {expected.detach() + 1});
  Counted counted{};
  std::mutex mutex;
  on_mesh(shape, [&](const DeviceMesh& mesh) {
    const auto ranks = mesh.size(mesh.ndim() - 1);
    const auto placed = [&](const at::Tensor& tensor, Placement batch, Placement heads_placement) {
      Placements placements(mesh.ndim(), batch);
      placements.back() = heads_placement;
      return distribute_tensor(tensor, mesh, Layout(placements));
    };
    const auto key_placement = key_heads % ranks == 0 ? Shard(0) : Replicate();
    Values in = {
        placed(global[0], Shard(0), Replicate()), placed(global[1], Replicate(), Shard(0)),
        placed(global[2], Replicate(), key_placement), placed(global[3], Replicate(), key_placement),
        placed(global[4], Replicate(), Shard(1))};
    for (const auto& tensor : in) {
      tensor.set_requires_grad(true);
    }
    CommLog log(mesh);
    const auto result = attention(in, heads, key_heads, sharing);
    const auto forward = log.calls();
    EXPECT_TRUE(spec_of(result)->layout().placements().back() == Partial());
    const auto gradient = placed(expected.detach() + 1, Shard(0), Replicate());
    log.clear();
    const auto results = torch::autograd::grad({result}, in, {gradient});
    {
      const std::lock_guard lock(mutex);
      counted = {forward, 0, ""};
      for (const auto& row : log.rows()) {
        counted.backward += row.operator_name == "gradient" ? 0 : row.calls;
        counted.gradients += row.operator_name == "gradient" ? c10::str(row.mesh_dims, " ", row.calls, "; ") : "";
      }
    }
    EXPECT_TRUE(at::allclose(full_tensor(result.detach()), expected.detach(), 1e-9, 1e-9));
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(at::allclose(full_tensor(results[i]), gradients[i], 1e-9, 1e-9)) << "gradient " << i;
    }
  });
  return counted;
}

TEST(SharedHeads, ShardedHeadsNeedNoCommunication) {
  for (const auto sharing : {Sharing::Gqa, Sharing::RepeatInterleave, Sharing::Expand}) {
    for (const int64_t key_heads : {4, 2}) {
      for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2}, {2, 2}}) {
        SCOPED_TRACE(c10::str(key_heads, " heads of the key on ", shape));
        const auto counted = expect_as_plain_on(shape, 4, key_heads, sharing);
        EXPECT_EQ(counted.forward, 0);
        EXPECT_EQ(counted.backward, 0);
        EXPECT_EQ(
            counted.gradients, shape.size() == 1 ? "a 1; " : "a 4; b 1; "); // the input's, and by batch the weights'
      }
    }
  }
}

TEST(SharedHeads, OneHeadOfTheKeyServesAllRanks) {
  for (const auto sharing : {Sharing::Gqa, Sharing::RepeatInterleave, Sharing::Expand}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2}, {4}, {2, 2}}) {
      SCOPED_TRACE(shape);
      const auto counted = expect_as_plain_on(shape, 4, 1, sharing);
      EXPECT_EQ(counted.forward, 0);
      EXPECT_EQ(counted.backward, 0);
      EXPECT_EQ(counted.gradients, shape.size() == 1 ? "a 3; " : "a 2; a,b 2; b 1; "); // key and value are everywhere
    }
  }
}

TEST(SharedHeads, HeadsOfTheKeyMayBeFewerThanRanks) {
  for (const auto sharing : {Sharing::Gqa, Sharing::RepeatInterleave}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4}, {2, 4}}) {
      SCOPED_TRACE(shape);
      const auto counted = expect_as_plain_on(shape, 8, 2, sharing);
      EXPECT_EQ(counted.forward, 0);
      EXPECT_EQ(counted.backward, 0);
      EXPECT_EQ(counted.gradients, shape.size() == 1 ? "a 3; " : "a 2; a,b 2; b 1; ");
    }
  }
}

TEST(SharedHeads, HeadsNeedNotDivideEvenly) {
  for (const auto sharing : {Sharing::Gqa, Sharing::RepeatInterleave, Sharing::Expand}) {
    expect_as_plain_on({4}, 6, 2, sharing);
    expect_as_plain_on({4}, 6, 3, sharing);
    expect_as_plain_on({2}, 6, 3, sharing);
    EXPECT_EQ(expect_as_plain_on({3}, 6, 2, sharing).forward, 0);
  }
}

TEST(SharedHeads, AHeadThatSeveralRanksNeedHasATermOfItsGradientOnEach) {
  on_mesh({4}, [](const DeviceMesh& mesh) {
    const auto key = distribute_tensor(parameter({1, 2, 3, 2}).detach(), mesh, {Replicate()}).set_requires_grad(true);
    const auto repeated = key.repeat_interleave(4, 1);
    const auto gradient = distribute_tensor(parameter({1, 8, 3, 2}).detach(), mesh, {Shard(1)});
    const CommLog log(mesh);
    const auto key_gradient = torch::autograd::grad({repeated * 1}, {key}, {gradient})[0];
    EXPECT_EQ(log.to_string(), "all_reduce a gradient 1 calls 288 bytes\n"); // three times twelve numbers
    EXPECT_TRUE(at::allclose(
        full_tensor(key_gradient), parameter({1, 8, 3, 2}).detach().view({1, 2, 4, 3, 2}).sum(2), 1e-12, 1e-12));
  });
}

TEST(SharedHeads, RepeatInterleaveEqualsTheSingleDevice) {
  for (const int64_t dim : {0, 1, -1}) {
    for (const int64_t repeats : {0, 1, 3}) {
      expect_as_plain({parameter({4, 3})}, [&](const Values& in) -> Values {
        const auto result = in[0].repeat_interleave(repeats, dim);
        result.pow(2).sum().backward();
        return {result, in[0].grad()};
      });
    }
  }
  expect_as_plain({parameter({4, 3})}, [](const Values& in) -> Values { return {in[0].repeat_interleave(2)}; });
  expect_as_plain({parameter({4, 3})}, [](const Values& in) -> Values { return {in[0].repeat_interleave(2, 1, 6)}; });
}

TEST(SharedHeads, TheGradientHasAGradient) {
  expect_as_plain({parameter({2, 3})}, [](const Values& in) -> Values {
    const auto loss = in[0].repeat_interleave(2, 1).pow(3).sum();
    const auto first = torch::autograd::grad({loss}, {in[0]}, {}, true, /*create_graph=*/true)[0];
    first.pow(2).sum().backward();
    return {first, in[0].grad()};
  });
}

TEST(SharedHeads, AttentionWithoutElementsEqualsTheSingleDevice) {
  using Shape = std::vector<int64_t>;
  for (const auto& [query, key] : std::vector<std::pair<Shape, Shape>>{
           {{1, 5, 0}, {1, 5, 0}},
           {{1, 5, 2}, {1, 0, 2}},
           {{1, 2, 0, 2}, {1, 2, 3, 2}},
           {{0, 2, 3, 4}, {0, 2, 3, 4}}}) {
    expect_as_plain({parameter(query), parameter(key), parameter(key)}, [](const Values& in) -> Values {
      const auto result = at::scaled_dot_product_attention(in[0], in[1], in[2]);
      result.sum().backward();
      return {result, in[0].grad(), in[1].grad()};
    });
  }
}

TEST(SharedHeads, AttentionWithoutElementsTakesNoPlainTensors) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto query = distribute_tensor(at::zeros({1, 5, 0}), mesh, {Replicate()});
    expect_contains(
        error_text([&] { at::scaled_dot_product_attention(query, at::zeros({1, 5, 0}), query); }),
        "[aten::scaled_dot_product_attention] distributed and plain tensors cannot be mixed, but argument 'key'");
  });
}

} // namespace shared_heads_test

} // namespace weft
