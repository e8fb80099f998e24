#include "weft/tensor/kernels/kernels.h"

#include "tests/support/against_plain.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace indexing_backward_test {
using namespace weft::testing;

using Pick = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& positions)>;

/// Ways to pick elements of a tensor of shape [6, 4, 3] by positions below 3.
const std::map<std::string, Pick>& all_picks() {
  static const std::map<std::string, Pick> all = {
      {"index", [](const auto& x, const auto& p) { return at::index(x, {p}); }},
      {"index of the last dim", [](const auto& x, const auto& p) { return at::index(x, {{}, {}, p}); }},
      {"index of two dims", [](const auto& x, const auto& p) { return at::index(x, {p, {}, p}); }},
      {"index_select", [](const auto& x, const auto& p) { return x.index_select(-3, p); }},
      {"gather", [](const auto& x, const auto& p) { return x.gather(0, p.view({5, 1, 1}).expand({5, 4, 3})); }}};
  return all;
}

const at::Tensor& positions() {
  static const auto all = at::tensor({2, 0, 1, 2, 2}, at::TensorOptions(at::kLong));
  return all;
}

TEST(IndexingBackward, EqualsTheSingleDevice) {
  for (const auto& [name, pick] : all_picks()) {
    SCOPED_TRACE(name);
    expect_as_plain({parameter({6, 4, 3}), positions()}, [pick = pick](const Values& in) -> Values {
      const auto picked = pick(in[0], in[1]);
      const auto gradient = torch::autograd::grad({picked.square().sum()}, {in[0]}, {}, true, /*create_graph=*/true)[0];
      return {picked, gradient, torch::autograd::grad({gradient.square().sum()}, {in[0]})[0]};
    });
  }
}

TEST(IndexingBackward, KeepsTheShardsOfDimsThatAreNotIndexed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto replicated = distribute_tensor(positions(), mesh, {Replicate()});
    for (const auto& [name, pick] : all_picks()) {
      const auto x = distribute_tensor(parameter({6, 4, 3}).detach(), mesh, {Shard(1)}).set_requires_grad(true);
      const auto picked = pick(x, replicated);
      CommLog log(mesh);
      const auto gradient = torch::autograd::grad({picked}, {x}, {picked.detach()})[0];
      EXPECT_EQ(spec_of(gradient)->layout(), Layout({Shard(1)})) << name;
      EXPECT_EQ(log.calls(), 0) << name;
    }
  });
}

TEST(IndexingBackward, APartialGradientIsReducedOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(parameter({6, 4}).detach(), mesh, {Replicate()}).set_requires_grad(true);
    const auto weight = distribute_tensor(parameter({2, 4}).detach(), mesh, {Shard(0)});
    const auto y = at::linear(at::index(x.sin(), {distribute_tensor(positions(), mesh, {Replicate()})}), weight);
    CommLog log(mesh);
    torch::autograd::grad({y}, {x}, {y.detach()});
    EXPECT_EQ(log.calls(), 1);
  });
}

} // namespace indexing_backward_test

} // namespace weft
