#include "weft/tensor/gradients/gradient_layout.h"
#include "tests/support/against_plain.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/distribute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace weft {

namespace gradient_layout_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

TEST(GradientLayout, TheGradientOfALeafHasTheLayoutOfTheLeaf) {
  const auto global = whole_numbers({5, 4});
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    auto leaf = from_local(part_of(global, mesh, layout), mesh, layout, global.sizes()).detach();
    leaf.set_requires_grad(true);
    const auto x = distribute_tensor(global, mesh, Layout(Placements(mesh.ndim(), Shard(0))));
    (leaf * x).sum().backward();
    EXPECT_EQ(spec_of(leaf.grad())->layout(), without_partial(layout));
    expect_equal(full_tensor(leaf.grad()), global);
    (leaf * x).sum().backward();
    EXPECT_EQ(spec_of(leaf.grad())->layout(), without_partial(layout));
    expect_equal(full_tensor(leaf.grad()), global * 2);
  });
}

TEST(GradientLayout, APartialGradientIsReducedOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto weight = distribute_tensor(whole_numbers({3, 4}), mesh, {Replicate()}).set_requires_grad(true);
    const auto x = distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)});
    const auto loss = (at::linear(x, weight) + at::linear(x * 2, weight)).sum();
    const CommLog log(mesh);
    loss.backward();
    to_local(weight.grad());
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    EXPECT_EQ(spec_of(weight.grad())->layout(), Layout{Replicate()});
    expect_equal(full_tensor(weight.grad()), whole_numbers({6, 4}).sum(0).mul(3).expand({3, 4}));
  });
}

TEST(GradientLayout, AGradientThatAFormulaGivesAsPlainZerosIsDistributed) {
  expect_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    (in[0].sign().sum() + in[0].floor().sum()).backward();
    return {in[0].grad()};
  });
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto leaf = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)}).set_requires_grad(true);
    leaf.sign().sum().backward();
    ASSERT_TRUE(is_dtensor(leaf.grad()));
    EXPECT_EQ(spec_of(leaf.grad())->layout(), Layout{Shard(0)});
  });
}

TEST(GradientLayout, GradientsOfPlainTensorsArePlain) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)});
    const auto weight = whole_numbers({3, 4}).set_requires_grad(true);
    const auto bias = whole_numbers({3}).set_requires_grad(true);
    const auto number = at::ones({}).set_requires_grad(true);
    const ReplicatePlainScope plain_is_replicated;
    const CommLog log(mesh);
    // The second weight is no leaf.
    (at::linear(x, weight, bias) * number + at::linear(x, weight * 2)).sum().backward();
    EXPECT_EQ(log.calls(), 2) << log.to_string(); // one bucket, and the weight that is no leaf
    for (const auto& leaf : {weight, bias, number}) {
      ASSERT_FALSE(is_dtensor(leaf.grad()));
    }
    expect_equal(weight.grad(), whole_numbers({6, 4}).sum(0).mul(3).expand({3, 4}));
    expect_equal(bias.grad(), at::full({3}, 6.0));
    expect_equal(number.grad(), (whole_numbers({6, 4}).matmul(weight.t()) + bias).sum());
  });
}

TEST(GradientLayout, ASecondGradientOfAPlainTensorIsPlain) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)});
    const auto scale = whole_numbers({3}).set_requires_grad(true);
    const ReplicatePlainScope plain_is_replicated;
    const auto first = torch::autograd::grad({(x * scale.pow(3)).sum()}, {scale}, {}, {}, /*create_graph=*/true)[0];
    ASSERT_FALSE(is_dtensor(first));
    first.sum().backward();
    expect_equal(scale.grad(), whole_numbers({4, 3}).sum(0) * 6 * scale.detach());
  });
}

struct WithoutGradient : torch::autograd::Function<WithoutGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* /*context*/,
      const torch::autograd::variable_list& /*gradients*/) {
    return {at::Tensor()};
  }
};

TEST(GradientLayout, AFormulaMayGiveNoGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto leaf = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto result = WithoutGradient::apply(leaf) + at::ones_like(leaf);
    result.sum().backward();
    EXPECT_FALSE(leaf.grad().defined());
  });
}

struct CountingHook : torch::autograd::FunctionPreHook {
  explicit CountingHook(int* count) : calls(count) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
    ++*calls;
    return gradients;
  }
  int* calls;
};

TEST(GradientLayout, HooksThatALeafHadStay) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    int calls = 0;
    const auto weight = distribute_tensor(whole_numbers({3, 4}), mesh, {Replicate()}).set_requires_grad(true);
    // As Python does it.
    torch::autograd::impl::add_hook(weight, std::make_unique<CountingHook>(&calls));
    at::linear(distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)}), weight).sum().backward();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(spec_of(weight.grad())->layout(), Layout{Replicate()});
  });
}

TEST(GradientLayout, NothingIsHeldOfALeaf) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)}).set_requires_grad(true);
    x.mul(2);
    EXPECT_EQ(x.use_count(), 1U);
    EXPECT_EQ(x.weak_use_count(), 1U) << "one for all owners; torch.utils.swap_tensors refuses more";
  });
}

TEST(GradientLayout, AGradientHasAGradient) {
  expect_as_plain({parameter({4, 3}), parameter({3, 3})}, [](const Values& in) -> Values {
    const auto loss = in[0].matmul(in[1]).pow(3).sum();
    const auto first = torch::autograd::grad({loss}, {in[1]}, {}, true, /*create_graph=*/true)[0];
    return {torch::autograd::grad({first.square().sum()}, {in[0]})[0]};
  });
}

} // namespace gradient_layout_test

} // namespace weft
