#include "tests/support/against_plain.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace selecting_backward_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

/// Runs an operator that selects elements, with a different gradient for each, and returns the result and the gradient.
void expect_choice_as_plain(const std::function<at::Tensor(const at::Tensor&)>& choose) {
  expect_as_plain({parameter({5, 4})}, [&](const Values& in) -> Values {
    const auto chosen = choose(in[0]);
    chosen.pow(3).sum().backward();
    return {chosen, in[0].grad()};
  });
}

TEST(SelectingBackward, TheGradientGoesToTheElementsThatWereChosen) {
  for (const int64_t dim : {0, 1, -1}) {
    for (const bool keepdim : {false, true}) {
      expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.max(dim, keepdim)); });
      expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.min(dim, keepdim)); });
      expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.median(dim, keepdim)); });
      expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.kthvalue(2, dim, keepdim)); });
    }
    expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.sort(dim, /*descending=*/true)); });
    expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.topk(2, dim)); });
  }
}

TEST(SelectingBackward, ACumulativeExtremeCountsAsOftenAsItStands) {
  for (const int64_t dim : {0, 1}) {
    expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.cummax(dim)); });
    expect_choice_as_plain([&](const at::Tensor& x) { return std::get<0>(x.cummin(dim)); });
  }
}

TEST(SelectingBackward, TheGradientOfANumberIsItsOwn) {
  expect_as_plain({parameter({})}, [](const Values& in) -> Values {
    std::get<0>(in[0].max(0)).pow(3).backward();
    return {in[0].grad()};
  });
}

TEST(SelectingBackward, TheGradientHasAGradient) {
  for (const bool cumulative : {false, true}) {
    expect_as_plain({parameter({5, 4})}, [&](const Values& in) -> Values {
      const auto chosen = cumulative ? std::get<0>(in[0].cummax(0)) : std::get<0>(in[0].max(1));
      const auto first = torch::autograd::grad({chosen.pow(3).sum()}, {in[0]}, {}, true, /*create_graph=*/true)[0];
      first.pow(2).sum().backward();
      return {first, in[0].grad()};
    });
  }
}

TEST(SelectingBackward, TheGradientIsDistributed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto y = x * 1;
    const auto gradient = torch::autograd::grad({std::get<0>(y.max(1)).sum()}, {y})[0];
    ASSERT_TRUE(is_dtensor(gradient));
    EXPECT_EQ(spec_of(gradient)->layout(), Layout{Shard(0)});
  });
}

} // namespace selecting_backward_test

} // namespace weft
