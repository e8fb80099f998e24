#include "weft/tensor/kernels/kernels.h"

#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace embedding_test {
using namespace weft::testing;

struct Options {
  int64_t padding = -1;
  bool scale_grad_by_freq = false;
};

const std::vector<Options> kAllOptions = {{}, {.padding = 2}, {-1, true}, {2, true}};

at::Tensor words(c10::IntArrayRef sizes, int64_t count) {
  const auto numbers = at::arange(c10::multiply_integers(sizes), at::kLong);
  return (numbers * numbers + 1).remainder(count).view(sizes);
}

at::Tensor found(const at::Tensor& table, const at::Tensor& indices, const Options& options) {
  return at::embedding(table, indices, options.padding, options.scale_grad_by_freq);
}

TEST(Embedding, ValuesAndGradientsEqualTheSingleDeviceUnderEveryLayout) {
  for (const auto& options : kAllOptions) {
    SCOPED_TRACE(c10::str("padding ", options.padding, ", frequencies ", options.scale_grad_by_freq));
    expect_as_plain({parameter({7, 4}), words({5}, 7)}, [&](const Values& in) -> Values {
      const auto result = found(in[0], in[1], options);
      result.pow(2).sum().backward();
      return {result, in[0].grad()};
    });
    expect_as_plain({parameter({6, 3}), words({3, 4}, 6)}, [&](const Values& in) -> Values {
      const auto result = found(in[0], in[1], options);
      result.pow(2).sum().backward();
      return {result, in[0].grad()};
    });
  }
}

TEST(Embedding, RowsMayBeFewerThanRanks) {
  for (const auto& options : kAllOptions) {
    for (const int64_t rows : {3, 5, 6}) {
      const auto global = parameter({rows, 2});
      const auto indices = words({4, 3}, rows);
      const auto plain = global.detach().clone().set_requires_grad(true);
      const auto expected = found(plain, indices, options);
      expected.pow(2).sum().backward();
      for (const auto& [shape, layout] : std::vector<std::pair<std::vector<int64_t>, Layout>>{
               {{4}, {Shard(0)}},
               {{2, 2}, {Shard(0), Shard(0)}},
               {{2, 3}, {Replicate(), Shard(0)}},
               {{2, 2}, Layout::parse("{S(0)[1], S(0)[0]}")},
               {{2, 2}, {Shard(1), Shard(0)}},
               {{2}, {StridedShard(0, 2)}}}) {
        SCOPED_TRACE(c10::str(rows, " rows ", layout));
        on_mesh(shape, [&](const DeviceMesh& mesh) {
          const auto table = distribute_tensor(global.detach(), mesh, layout).set_requires_grad(true);
          const auto at_rows = Layout(Placements(mesh.ndim(), Replicate()));
          const auto result = found(table, distribute_tensor(indices, mesh, at_rows), options);
          result.pow(2).sum().backward();
          EXPECT_TRUE(at::allclose(full_tensor(result.detach()), expected.detach()));
          EXPECT_TRUE(at::allclose(full_tensor(table.grad()), plain.grad()));
          EXPECT_EQ(spec_of(table.grad())->layout(), layout);
        });
      }
    }
  }
}

TEST(Embedding, AShardedTableNeedsNoCommunicationAndItsGradientHasItsLayout) {
  for (const auto& options : kAllOptions) {
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      const auto table = distribute_tensor(parameter({16, 4}).detach(), mesh, {Shard(0)}).set_requires_grad(true);
      const auto indices = distribute_tensor(words({6, 2}, 16), mesh, {Replicate()});
      const CommLog log(mesh);
      const auto result = found(table, indices, options);
      EXPECT_EQ(spec_of(result)->layout(), Layout{Partial()});
      const auto gradient = distribute_tensor(parameter({6, 2, 4}).detach(), mesh, {Replicate()}, {std::nullopt});
      const ExplainLog calls;
      const auto of_table = torch::autograd::grad({result}, {table}, {gradient})[0];
      EXPECT_EQ(spec_of(of_table)->layout(), Layout{Shard(0)});
      EXPECT_LE(to_local(of_table).storage().nbytes(), (8 + 1) * 4 * sizeof(double));
      EXPECT_EQ(calls.to_string(), "") << "nothing of the global table's size";
      EXPECT_EQ(log.calls(), 0) << log.to_string();
    });
  }
}

TEST(Embedding, AGradientShardedByColumnsFitsATableShardedByColumns) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto table = distribute_tensor(parameter({8, 4}).detach(), mesh, {Shard(1)}).set_requires_grad(true);
    const auto indices = distribute_tensor(words({5}, 8), mesh, {Replicate()});
    for (const auto& layout : {Layout{Shard(1)}, Layout{Replicate()}}) {
      const auto gradient = distribute_tensor(parameter({5, 4}).detach(), mesh, layout, {std::nullopt});
      const CommLog log(mesh);
      const auto result = at::embedding(table, indices);
      EXPECT_EQ(spec_of(result)->layout(), Layout{Shard(1)});
      const auto of_table = torch::autograd::grad({result}, {table}, {gradient})[0];
      EXPECT_EQ(spec_of(of_table)->layout(), Layout{Shard(1)});
      EXPECT_EQ(log.calls(), 0) << log.to_string();
      expect_equal(
          full_tensor(of_table), at::embedding_dense_backward(parameter({5, 4}).detach(), words({5}, 8), 8, -1, false));
    }
  });
}

TEST(Embedding, TheTermsOfAShardedTableAreReducedOnceToReplicasOrShards) {
  const auto global = parameter({6, 4}).detach();
  const auto indices = words({2, 4}, 6);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto table = distribute_tensor(global, mesh, {Shard(0)}).set_requires_grad(true);
    const auto positions = distribute_tensor(indices, mesh, {Replicate()});
    CommLog log(mesh);
    const auto replicated = redistribute(at::embedding(table, positions), {Replicate()});
    expect_equal(to_local(replicated.detach()), at::embedding(global, indices));
    EXPECT_EQ(log.to_string(), "all_reduce a - 1 calls 256 bytes\n");
    log.clear();
    const auto parts = redistribute(at::embedding(table, positions), {Shard(1)});
    expect_equal(full_tensor(parts.detach()), at::embedding(global, indices));
    log.clear();
    redistribute(at::embedding(table, positions), {Shard(1)});
    EXPECT_EQ(log.to_string(), "reduce_scatter a - 1 calls 128 bytes\n");
    log.clear();
    const auto gradient = distribute_tensor(parameter({2, 4, 4}).detach(), mesh, {Shard(1)}, {std::nullopt});
    parts.backward(gradient);
    EXPECT_EQ(log.to_string(), "all_gather a - 1 calls 128 bytes\n");
    expect_equal(
        full_tensor(table.grad()), at::embedding_dense_backward(parameter({2, 4, 4}).detach(), indices, 6, -1, false));
  });
}

TEST(Embedding, WithAShardedBatchAShardOfTheGradientIsReducedOnce) {
  const auto global = parameter({8, 4}).detach();
  const auto indices = words({4, 3}, 8);
  for (const auto& options : kAllOptions) {
    const auto plain = global.clone().set_requires_grad(true);
    found(plain, indices, options).backward(parameter({4, 3, 4}).detach());
    on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
      const auto table = distribute_tensor(global, mesh, {Replicate(), Shard(0)}).set_requires_grad(true);
      const auto positions = distribute_tensor(indices, mesh, {Shard(0), Replicate()});
      const auto gradient = distribute_tensor(parameter({4, 3, 4}).detach(), mesh, {Shard(0), Replicate()});
      const CommLog log(mesh);
      const auto result = found(table, positions, options);
      EXPECT_EQ(spec_of(result)->layout(), (Layout{Shard(0), Partial()}));
      result.backward(gradient);
      // Four rows of four numbers, and how often each of the rows was looked up.
      const std::string counts =
          options.scale_grad_by_freq ? "all_reduce a aten::embedding_dense_backward 1 calls 32 bytes\n" : "";
      EXPECT_EQ(log.to_string(), counts + "all_reduce a gradient 1 calls 128 bytes\n");
      EXPECT_TRUE(at::allclose(full_tensor(table.grad()), plain.grad()));
    });
  }
}

TEST(Embedding, APositionThatNoRankHoldsRaisesAsOnASingleDevice) {
  for (const int64_t wrong : {-1, 7, 100}) {
    const auto error = error_as_plain(
        {parameter({7, 4}), at::full({3}, wrong, at::kLong)},
        [](const Values& in) -> Values { return {at::embedding(in[0], in[1])}; });
    expect_contains(error, "index out of range in self");
  }
}

TEST(Embedding, TheGradientHasAGradient) {
  expect_as_plain({parameter({6, 3}), words({4}, 6), parameter({4, 3})}, [](const Values& in) -> Values {
    const auto result = at::embedding(in[0], in[1]) * in[2];
    const auto first = torch::autograd::grad({result.pow(2).sum()}, {in[0]}, {}, true, /*create_graph=*/true)[0];
    first.pow(2).sum().backward();
    return {first, in[0].grad(), in[2].grad()};
  });
}

TEST(Embedding, SparseGradientsAreRefused) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto table = distribute_tensor(parameter({6, 3}).detach(), mesh, {Shard(0)}).set_requires_grad(true);
    const auto indices = distribute_tensor(words({4}, 6), mesh, {Replicate()});
    const auto result = at::embedding(table, indices, -1, false, /*sparse=*/true);
    expect_contains(
        error_text<c10::NotImplementedError>([&] { result.sum().backward(); }),
        "[aten::embedding] sparse gradients are not supported for distributed tensors, but got sparse=True. Leave it "
        "out: the gradient is dense, with the table's layout.");
  });
}

} // namespace embedding_test

} // namespace weft
