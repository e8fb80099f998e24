#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/scopes.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace convolution_test {
using namespace weft::testing;

struct Case {
  std::vector<int64_t> input;
  std::vector<int64_t> weight;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t groups = 1;
};

/// Integers, so that sums in any order are the same.
at::Tensor small_numbers(c10::IntArrayRef sizes) {
  return (at::arange(c10::multiply_integers(sizes), at::kLong).view(sizes) * 7 % 5 - 2).to(at::kFloat);
}

at::Tensor call(const Case& c, const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  const std::vector<int64_t> stride(x.dim() - 2, c.stride);
  const std::vector<int64_t> padding(x.dim() - 2, c.padding);
  const std::vector<int64_t> dilation(x.dim() - 2, c.dilation);
  return at::convolution(
      x, w, b, stride, padding, dilation, /*transposed=*/false, std::vector<int64_t>(x.dim() - 2, 0), c.groups);
}

std::vector<at::Tensor> with_gradients(const Case& c, at::Tensor x, at::Tensor w, at::Tensor b) {
  for (auto* leaf : {&x, &w, &b}) {
    leaf->set_requires_grad(true);
  }
  const auto y = call(c, x, w, b);
  (y * y).sum().backward();
  return {y.detach(), x.grad(), w.grad(), b.grad()};
}

void expect_as_on_one_device(
    const Case& c,
    const std::vector<int64_t>& mesh_shape,
    const Layout& layout,
    bool takes_halo) {
  SCOPED_TRACE(c10::str(layout, " of ", c.input, " by ", c.weight, " on ", mesh_shape));
  const auto x = small_numbers(c.input);
  const auto w = small_numbers(c.weight);
  const auto b = small_numbers({c.weight[0]});
  const auto expected = with_gradients(c, x.clone(), w.clone(), b.clone());
  on_mesh(mesh_shape, [&](const DeviceMesh& mesh) {
    const Layout none(Placements(mesh.ndim(), Replicate()));
    const auto of_x = distribute_tensor(x, mesh, layout);
    const auto of_w = distribute_tensor(w, mesh, none);
    const auto of_b = distribute_tensor(b, mesh, none);
    {
      const CommLog log(mesh);
      const auto y = call(c, of_x, of_w, of_b);
      EXPECT_EQ(log.calls(), 1) << log.to_string();
      EXPECT_EQ(spec_of(y)->layout() == layout, takes_halo);
    }
    const auto computed = with_gradients(c, of_x, of_w, of_b);
    for (size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE(i);
      expect_equal(full_tensor(computed[i]), expected[i]);
    }
    EXPECT_EQ(spec_of(computed[1])->layout(), layout);
    EXPECT_EQ(spec_of(computed[2])->layout(), none);
  });
}

const std::vector<Case> kCases = {
    {.input = {2, 2, 12}, .weight = {3, 2, 3}, .padding = 1},
    {.input = {1, 2, 17}, .weight = {3, 2, 3}},
    {.input = {1, 2, 21}, .weight = {3, 2, 3}, .stride = 2, .padding = 1},
    {.input = {1, 2, 22}, .weight = {2, 2, 2}, .stride = 3},
    {.input = {1, 4, 20}, .weight = {4, 1, 3}, .padding = 2, .dilation = 2, .groups = 4},
    {.input = {1, 2, 16, 3}, .weight = {4, 1, 3, 3}, .padding = 1, .groups = 2},
    {.input = {2, 2, 13, 5}, .weight = {3, 2, 4, 2}, .stride = 2, .padding = 1, .dilation = 1},
    {.input = {1, 1, 12, 3, 3}, .weight = {2, 1, 3, 2, 2}, .padding = 1},
};

TEST(Convolution, KeepsASpatialDimShardedByOneExchange) {
  for (const auto& c : kCases) {
    for (const int64_t ranks : {2, 3}) {
      expect_as_on_one_device(c, {ranks}, {Shard(2)}, true);
    }
  }
}

TEST(Convolution, SamplesAndBothSpatialDimsMayBeSharded) {
  const Case image{.input = {3, 2, 10, 9}, .weight = {3, 2, 3, 3}, .padding = 1};
  expect_as_on_one_device(image, {2, 2}, {Shard(0), Shard(2)}, true);
  expect_as_on_one_device(image, {2, 2}, {Shard(3), Shard(2)}, true);
  expect_as_on_one_device(image, {2, 2}, {Shard(2), Shard(2)}, true);
  expect_as_on_one_device(image, {2, 2}, Layout({Shard(3), Shard(3)}, {1, 0}), true);
  expect_as_on_one_device(image, {2, 2}, {Replicate(), Shard(3)}, true);
  expect_as_on_one_device(image, {4}, {Shard(3)}, true); // shards of 3, 3, 3 and 0 columns
}

TEST(Convolution, GoesByTheRuleWhereTheHaloIsTheLargerTransfer) {
  const Case wide{.input = {4, 2, 8}, .weight = {3, 2, 7}, .padding = 3};
  expect_as_on_one_device(wide, {2}, {Shard(2)}, false);
}

TEST(Convolution, GoesByTheRuleWhereChannelsOrWeightsAreSharded) {
  const Case image{.input = {2, 4, 12}, .weight = {4, 4, 3}, .padding = 1};
  const auto x = small_numbers(image.input);
  const auto w = small_numbers(image.weight);
  const auto expected = call(image, x, w, {});
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    for (const auto& of_w :
         {Layout({Shard(0), Replicate()}), Layout({Replicate(), Shard(0)}), Layout({Partial(), Replicate()})}) {
      for (const auto& of_x :
           {Layout({Shard(2), Replicate()}), Layout({Shard(1), Shard(2)}), Layout({Shard(2), Partial()})}) {
        const auto y = call(image, distribute_tensor(x, mesh, of_x), distribute_tensor(w, mesh, of_w), {});
        expect_equal(full_tensor(y), expected);
      }
    }
  });
}

TEST(Convolution, ImagesOfChannelsLastStaySo) {
  const auto x = small_numbers({2, 3, 8, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto w = small_numbers({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto expected = at::conv2d(x, w, {}, 1, 1);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto y =
        at::conv2d(distribute_tensor(x, mesh, {Shard(2)}), distribute_tensor(w, mesh, {Replicate()}), {}, 1, 1);
    EXPECT_EQ(y.strides(), expected.strides());
    EXPECT_TRUE(to_local(y).is_contiguous(at::MemoryFormat::ChannelsLast));
    expect_equal(full_tensor(y), expected);
  });
}

TEST(Convolution, OnlyTheGradientsThatAreWantedAreExchanged) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(small_numbers({1, 2, 12}), mesh, {Shard(2)});
    const auto w = distribute_tensor(small_numbers({3, 2, 3}), mesh, {Replicate()});
    const auto gradient = distribute_tensor(small_numbers({1, 3, 12}), mesh, {Shard(2)});
    for (const auto& [wanted, calls] : std::vector<std::pair<std::array<bool, 3>, int64_t>>{
             {{true, false, false}, 1},
             {{false, true, true}, 1},
             {{true, true, false}, 2},
             {{false, false, true}, 0}}) {
      const CommLog log(mesh);
      const auto [of_x, of_w, of_b] =
          at::convolution_backward(gradient, x, w, c10::IntArrayRef{3}, {1}, {1}, {1}, false, {0}, 1, wanted);
      EXPECT_EQ(log.calls(), calls);
      EXPECT_EQ(of_x.defined(), wanted[0]);
      if (wanted[1]) {
        EXPECT_EQ(spec_of(of_w)->layout(), Layout({Partial()}));
      }
    }
  });
}

TEST(Convolution, SecondDerivativesAreThoseOfOneDevice) {
  const auto twice = [](at::Tensor x, at::Tensor w) {
    x.set_requires_grad(true);
    w.set_requires_grad(true);
    const auto y = at::conv1d(x, w, {}, 1, 1);
    const auto first = torch::autograd::grad({(y * y * y).sum()}, {x, w}, {}, true, /*create_graph=*/true);
    ((first[0] * first[0]).sum() + first[1].sum()).backward();
    return std::vector<at::Tensor>{x.grad(), w.grad()};
  };
  const auto expected = twice(small_numbers({1, 2, 10}), small_numbers({2, 2, 3}));
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto computed = twice(
        distribute_tensor(small_numbers({1, 2, 10}), mesh, {Shard(2)}),
        distribute_tensor(small_numbers({2, 2, 3}), mesh, {Replicate()}));
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_equal(full_tensor(computed[i]), expected[i]);
    }
  });
}

TEST(Convolution, APlainWeightIsReplicated) {
  const auto expected = at::conv1d(small_numbers({1, 2, 12}), small_numbers({3, 2, 3}), small_numbers({3}), 1, 1);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const ReplicatePlainScope scope;
    const auto x = distribute_tensor(small_numbers({1, 2, 12}), mesh, {Shard(2)});
    expect_equal(full_tensor(at::conv1d(x, small_numbers({3, 2, 3}), small_numbers({3}), 1, 1)), expected);
  });
}

TEST(Convolution, InvalidCallsRaiseAsOnOneDevice) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(small_numbers({1, 2, 4}), mesh, {Shard(2)});
    const auto w = distribute_tensor(small_numbers({3, 2, 7}), mesh, {Replicate()});
    EXPECT_THROW(at::conv1d(x, w), c10::Error);
  });
  // The padding of a sharded dim is in the window already, so that the kernel does not see it.
  on_mesh({4}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(small_numbers({1, 2, 9}), mesh, {Shard(2)}); // the last shard is empty
    const auto w = distribute_tensor(small_numbers({3, 2, 3}), mesh, {Replicate()});
    const auto gradient = distribute_tensor(small_numbers({1, 3, 8}), mesh, {Shard(2)});
    EXPECT_THROW(at::conv1d(x, w, {}, 1, -1), c10::Error);
    EXPECT_THROW(at::convolution(x, w, {}, {1}, {1, 1}, {1}, false, {0}, 1), c10::Error);
    EXPECT_THROW(at::convolution(x.to(at::kBool), w.to(at::kBool), {}, {1}, {1}, {1}, false, {0}, 1), c10::Error);
    EXPECT_THROW(
        at::convolution_backward(gradient, x, w, {}, {1}, {1}, {1}, false, {0}, 1, {true, true, false}), c10::Error);
  });
}

TEST(Convolution, ExplainsTheExchange) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(small_numbers({1, 2, 12}), mesh, {Shard(2)});
    const auto w = distribute_tensor(small_numbers({3, 2, 3}), mesh, {Replicate()});
    const ExplainLog log;
    at::conv1d(x, w, {}, 1, 1);
    EXPECT_NE(log.to_string().find("all_to_all over a"), std::string::npos) << log.to_string();
  });
}

} // namespace convolution_test
} // namespace weft
