#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "weft/weft.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace weft {

namespace autograd_test {
using namespace weft::testing;
using torch::autograd::grad;

/// A number that depends on every element in a way of its own.
at::Tensor score(const at::Tensor& x) {
  return (x * x * x + x).sum();
}

TEST(Autograd, NothingIsRecordedWithoutGradMode) {
  expect_as_plain({parameter({4, 3}), parameter({3, 5})}, [](const Values& in) -> Values {
    const c10::NoGradGuard no_grad;
    const auto product = in[0].matmul(in[1]);
    EXPECT_FALSE(product.requires_grad());
    EXPECT_EQ(product.grad_fn(), nullptr);
    return {product, in[0].t(), in[0] + 1};
  });
}

TEST(Autograd, LeavesChangeInPlaceWithoutGradMode) {
  expect_as_plain({parameter({4, 3}), parameter({4, 3})}, [](const Values& in) -> Values {
    const c10::NoGradGuard no_grad;
    in[0].add_(in[1], -0.5);
    in[0].t().mul_(2);
    in[0].view({2, 2, 3}).add_(1);
    return {in[0]};
  });
}

TEST(Autograd, InferenceModeMakesInferenceTensors) {
  expect_as_plain({parameter({4, 3}), parameter({3, 5})}, [](const Values& in) -> Values {
    const c10::InferenceMode inference;
    auto product = in[0].matmul(in[1]);
    product.mul_(3);
    product.t().mul_(2);
    EXPECT_TRUE(product.is_inference());
    return {product, product.softmax(1)};
  });
}

TEST(Autograd, InferenceTensorsCannotBeSavedForBackward) {
  const auto error = error_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    at::Tensor made;
    {
      const c10::InferenceMode inference;
      made = in[0] * 2;
    }
    return {in[0] * made};
  });
  expect_contains(error, "Inference tensors cannot be saved for backward");
}

TEST(Autograd, BackwardGivesEveryLeafItsGradient) {
  expect_as_plain({parameter({4, 3}), parameter({5, 3}), parameter({5})}, [](const Values& in) -> Values {
    score(at::linear(in[0], in[1], in[2])).backward();
    return {in[0].grad(), in[1].grad(), in[2].grad()};
  });
}

TEST(Autograd, AGradientLiesAsItsLeaf) {
  run_on_ranks(4, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    const auto x = distribute_tensor(parameter({4, 6}).detach(), mesh, {Shard(0), Replicate()});
    for (const auto& layout : {Layout{Replicate(), Shard(0)}, {Replicate(), Shard(1)}, {Replicate(), Replicate()}}) {
      const auto weight = distribute_tensor(parameter({8, 6}), mesh, layout);
      score(at::linear(x, weight)).backward();
      EXPECT_EQ(spec_of(weight.grad())->layout(), layout);
    }
  });
}

TEST(Autograd, GradientsAddUpOverBackwardCalls) {
  expect_as_plain({parameter({4, 3}), parameter({5, 3})}, [](const Values& in) -> Values {
    score(at::linear(in[0], in[1])).backward();
    const auto first = in[1].grad();
    score(at::linear(in[0] * 2, in[1]).t()).backward();
    EXPECT_EQ(first.unsafeGetTensorImpl(), in[1].grad().unsafeGetTensorImpl()) << "gradients are added in place";
    return {in[0].grad(), in[1].grad()};
  });
}

TEST(Autograd, BackwardRunsTwiceOnAGraphThatIsRetained) {
  expect_as_plain({parameter({4, 3}), parameter({4, 3})}, [](const Values& in) -> Values {
    const auto result = score(in[0] * in[1]);
    result.backward({}, /*retain_graph=*/true);
    result.backward();
    return {in[0].grad(), in[1].grad()};
  });
}

TEST(Autograd, AGraphThatIsNotRetainedIsGone) {
  const auto error = error_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    const auto result = score(in[0]);
    result.backward();
    result.backward();
    return {};
  });
  expect_contains(error, "Trying to backward through the graph a second time");
}

TEST(Autograd, BackwardTakesAGradient) {
  expect_as_plain({parameter({4, 3}), parameter({3, 5}), parameter({4, 5})}, [](const Values& in) -> Values {
    in[0].matmul(in[1]).backward(in[2].detach());
    return {in[0].grad(), in[1].grad()};
  });
}

TEST(Autograd, GradAsksForSomeGradientsOnly) {
  expect_as_plain({parameter({4, 3}), parameter({3, 5}), parameter({2})}, [](const Values& in) -> Values {
    const auto hidden = in[0].matmul(in[1]);
    const auto gradients = grad({score(hidden)}, {in[1], hidden, in[2]}, {}, false, false, /*allow_unused=*/true);
    EXPECT_FALSE(in[1].grad().defined());
    return gradients;
  });
}

TEST(Autograd, GradOfATensorThatWasNotUsedIsAnError) {
  const auto error = error_as_plain(
      {parameter({4, 3}), parameter({2})}, [](const Values& in) -> Values { return grad({score(in[0])}, {in[1]}); });
  expect_contains(error, "appears to not have been used in the graph");
}

TEST(Autograd, ADetachedTensorSharesMemoryAndNoHistory) {
  expect_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    const auto doubled = in[0] * 2;
    const auto apart = doubled.detach();
    apart.add_(1);
    EXPECT_FALSE(apart.requires_grad());
    score(doubled * apart).backward();
    return {doubled, apart, in[0].grad()};
  });
}

TEST(Autograd, HooksSeeAndChangeGradients) {
  expect_as_plain({parameter({4, 3}), parameter({5, 3})}, [](const Values& in) -> Values {
    auto hidden = at::linear(in[0], in[1]);
    at::Tensor seen;
    hidden.register_hook([&](const at::Tensor& gradient) { seen = gradient; });
    hidden.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
    in[1].register_hook([](const at::Tensor& gradient) { return gradient + 1; });
    hidden.retain_grad();
    score(hidden).backward();
    return {seen, hidden.grad(), in[0].grad(), in[1].grad()};
  });
}

TEST(Autograd, ViewsOfALeafPassGradientsOn) {
  expect_as_plain({parameter({4, 6})}, [](const Values& in) -> Values {
    const auto turned = in[0].t();
    const auto folded = in[0].view({2, 2, 6}).select(1, 1);
    const auto piece = in[0].slice(1, 1, 5, 2);
    EXPECT_TRUE(turned.requires_grad() && folded.requires_grad() && piece.requires_grad());
    EXPECT_TRUE(turned.is_view() && folded.is_view() && piece.is_view());
    (score(turned) + 2 * score(folded) + 3 * score(piece)).backward();
    return {in[0].grad()};
  });
}

TEST(Autograd, WritingThroughAViewChangesItsBaseAndItsGradient) {
  struct Write {
    std::function<void(const at::Tensor& x)> write;
    std::vector<int64_t> shard_dims; // along which the view stays where it is
  };
  const std::vector<Write> writes = {
      {[](const at::Tensor& x) { x.view({2, 2, 6}).mul_(2); }, {0, 1}},
      {[](const at::Tensor& x) { x.t().mul_(3); }, {0, 1}},
      {[](const at::Tensor& x) { x.unsqueeze(0).squeeze(0).mul_(x.detach().clone()); }, {0, 1}},
      {[](const at::Tensor& x) { x[0].add_(1); }, {1}},
      {[](const at::Tensor& x) { x[1].copy_(x[2]); }, {1}},
      {[](const at::Tensor& x) { x.narrow(0, 1, 2).mul_(x.narrow(0, 2, 2).clone()); }, {1}},
      {[](const at::Tensor& x) { x.slice(1, 1, 4).sin_(); }, {0}},
      {[](const at::Tensor& x) { x.t()[2].zero_(); }, {0}},
  };
  for (size_t i = 0; i < writes.size(); ++i) {
    SCOPED_TRACE(c10::str("write ", i));
    const TensorProgram program = [&](const Values& in) -> Values {
      const auto x = in[0] * 1;
      writes[i].write(x);
      score(x).backward();
      return {x, in[0].grad()};
    };
    expect_as_plain({parameter({4, 6})}, program, {.shard_dims = writes[i].shard_dims});
  }
}

TEST(Autograd, AViewThatHadToMoveCannotBeWrittenTo) {
  const std::vector<std::function<void(const at::Tensor& x)>> writes = {
      [](const at::Tensor& x) { x[0].add_(1); },
      [](const at::Tensor& x) { x[0].zero_(); },
      [](const at::Tensor& x) { x[0].copy_(x[1]); },
      [](const at::Tensor& x) { x[0].bernoulli_(0.5); },
      [](const at::Tensor& x) {
        auto row = x[0];
        at::add_out(row, x[1], x[2]);
      },
  };
  for (size_t i = 0; i < writes.size(); ++i) {
    SCOPED_TRACE(c10::str("write ", i));
    run_on_ranks(2, [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", {2});
      const auto x = distribute_tensor(parameter({4, 6}).detach(), mesh, {Shard(0)});
      expect_contains(
          error_text<c10::ValueError>([&] { writes[i](x); }),
          "is a view that had to be redistributed, so that writing to it would not change the tensor it was taken of. "
          "Redistribute that tensor first, or clone the view.");
    });
  }
}

TEST(Autograd, AViewSeesWhatIsWrittenToItsBase) {
  const TensorProgram program = [](const Values& in) -> Values {
    const auto x = in[0] * 1;
    const auto row = x[1];
    const auto turned = x.t();
    x.mul_(in[1]);
    (score(row) + 2 * score(turned)).backward();
    return {row, turned, in[0].grad(), in[1].grad()};
  };
  expect_as_plain({parameter({4, 6}), parameter({1, 6})}, program, {.shard_dims = {{1}}});
}

TEST(Autograd, AViewThatHadToMoveCannotBeReadOnceItsBaseHasChanged) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto x = distribute_tensor(parameter({4, 6}).detach(), mesh, {Shard(0)});
    const auto row = x[1];
    EXPECT_TRUE(at::equal(full_tensor(row), full_tensor(x)[1]));
    x.t().add_(1);
    const auto error = "is a view that had to be redistributed, and the tensor it was taken of has changed since";
    expect_contains(error_text<c10::ValueError>([&] { row.add(1); }), error);
    expect_contains(error_text<c10::ValueError>([&] { full_tensor(row); }), error);
    EXPECT_TRUE(at::equal(full_tensor(x[1]), full_tensor(x)[1]));
  });
}

TEST(Autograd, AViewThatHadToMoveCanBeReadBelowAutogradAsWell) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2});
    const auto x = distribute_tensor(parameter({4, 6}).detach(), mesh, {Shard(0)});
    x.add_(1);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    EXPECT_TRUE(at::equal(full_tensor(x[1].mul(2)), full_tensor(x)[1].mul(2)));
  });
}

TEST(Autograd, TensorsThatWereChangedGoThroughBackwardAsOthers) {
  expect_as_plain({parameter({2, 3, 4}), parameter({5, 4}), parameter({4})}, [](const Values& in) -> Values {
    auto x = in[0] * 1;
    x.add_(1);
    auto weight = in[1] * 1;
    weight.mul_(2);
    auto hidden = at::linear(x, weight);
    hidden.mul_(3);
    score(hidden.matmul(weight) + at::layer_norm(x, {4}, in[2]).matmul(x.transpose(1, 2)).sum()).backward();
    return {in[0].grad(), in[1].grad(), in[2].grad()};
  });
}

TEST(Autograd, ALeafThatRequiresAGradientCannotBeChangedInPlace) {
  const auto of_leaf = error_as_plain({parameter({4, 3})}, [](const Values& in) -> Values { return {in[0].add_(1)}; });
  expect_contains(of_leaf, "a leaf Variable that requires grad is being used in an in-place operation");
  const auto of_view =
      error_as_plain({parameter({4, 3})}, [](const Values& in) -> Values { return {in[0].t().add_(1)}; });
  expect_contains(of_view, "a view of a leaf Variable that requires grad is being used in an in-place operation");
}

TEST(Autograd, ASavedTensorThatIsChangedIsNoticed) {
  const auto error = error_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    auto x = in[0] * 2;
    const auto squared = x * x;
    x.add_(1);
    squared.sum().backward();
    return {};
  });
  expect_contains(error, "has been modified by an inplace operation");
}

/// Saves a tensor and gives it back, as functions of a user's own do.
struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static Values backward(torch::autograd::AutogradContext* context, const Values& gradients) {
    const auto x = context->get_saved_variables()[0];
    return {gradients[0] * 3 * x * x};
  }
};

TEST(Autograd, FunctionsOfAUsersOwnTakeDistributedTensors) {
  expect_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    const auto cube = Cube::apply(in[0] * 2);
    const auto first = grad({score(cube)}, {in[0]}, {}, true, /*create_graph=*/true)[0];
    score(first).backward();
    return {cube, first, in[0].grad()};
  });
}

/// Packs a tensor in half precision and unpacks it again.
struct InHalfPrecision : torch::autograd::SavedVariableHooks {
  void call_pack_hook(const at::Tensor& tensor) override {
    packed = tensor.to(at::kHalf);
  }
  at::Tensor call_unpack_hook() override {
    return packed.to(at::kDouble);
  }
  at::Tensor packed;
};

TEST(Autograd, SavedTensorsGoThroughTheirHooks) {
  expect_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    const auto doubled = in[0] * 2;
    torch::autograd::SavedVariable saved(doubled, /*is_output=*/false);
    saved.register_hooks(std::make_unique<InHalfPrecision>());
    const auto unpacked = saved.unpack();
    EXPECT_EQ(unpacked.grad_fn(), doubled.grad_fn());
    score(unpacked).backward();
    return {unpacked, in[0].grad()};
  });
}

/// Expects first and second derivatives of a function as on plain tensors.
void expect_gradients_of_gradients(const Values& inputs, const std::function<at::Tensor(const Values& in)>& function) {
  expect_as_plain(inputs, [&](const Values& in) -> Values {
    auto results = grad({score(function(in))}, in, {}, true, /*create_graph=*/true);
    at::Tensor sum = score(results[0]);
    for (size_t i = 1; i < results.size(); ++i) {
      sum = sum + score(results[i]);
    }
    sum.backward();
    for (const auto& input : in) {
      results.push_back(input.grad());
    }
    return results;
  });
}

TEST(Autograd, GradientsHaveGradientsThroughLinear) {
  expect_gradients_of_gradients({parameter({4, 3}), parameter({5, 3}), parameter({5})}, [](const Values& in) {
    return at::linear(in[0], in[1], in[2]);
  });
  expect_gradients_of_gradients(
      {parameter({2, 3, 4}), parameter({5, 4})}, [](const Values& in) { return at::linear(in[0], in[1]); });
}

TEST(Autograd, GradientsHaveGradientsThroughMatmul) {
  const auto product = [](const Values& in) { return at::matmul(in[0], in[1]); };
  expect_gradients_of_gradients({parameter({4, 3}), parameter({3, 5})}, product);
  expect_gradients_of_gradients({parameter({2, 4, 3}), parameter({3, 5})}, product);
  expect_gradients_of_gradients({parameter({4, 3}), parameter({3})}, product);
}

TEST(Autograd, GradientsHaveGradientsThroughLayerNorm) {
  expect_gradients_of_gradients({parameter({4, 6}), parameter({6}), parameter({6})}, [](const Values& in) {
    return at::layer_norm(in[0], {6}, in[1], in[2]);
  });
}

TEST(Autograd, GradientsHaveGradientsThroughSoftmax) {
  expect_gradients_of_gradients({parameter({4, 6})}, [](const Values& in) { return at::softmax(in[0], 1); });
  expect_gradients_of_gradients({parameter({4, 6})}, [](const Values& in) { return at::log_softmax(in[0], 0); });
}

TEST(Autograd, GradientsHaveGradientsThroughPointwiseOperators) {
  expect_gradients_of_gradients({parameter({4, 6}), parameter({6})}, [](const Values& in) {
    return (in[0].tanh() * in[1].exp() - in[0].sigmoid() / (in[1] + 3)).pow(2);
  });
}

TEST(Autograd, GradientsHaveGradientsThroughViews) {
  expect_gradients_of_gradients(
      {parameter({4, 6})}, [](const Values& in) { return in[0].t().reshape({3, 8}).slice(1, 1, 6).sin(); });
}

TEST(Autograd, GradientsHaveGradientsThroughMeanAndVariance) {
  expect_gradients_of_gradients({parameter({4, 6})}, [](const Values& in) { return in[0].mean(0) * in[0].var(0); });
}

} // namespace autograd_test

} // namespace weft
