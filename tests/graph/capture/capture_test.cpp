#include "weft/graph/capture/capture.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/run_program.h"
#include "weft/tensor/distribute.h"

#include <ATen/autocast_mode.h>
#include <c10/util/ScopeExit.h>
#include <torch/torch.h>

namespace weft::graph {

namespace capture_test {
using namespace weft::testing;
namespace nn = torch::nn;

nn::Sequential make_mlp() {
  torch::manual_seed(1);
  return nn::Sequential(nn::Linear(4, 8), nn::GELU(), nn::Linear(8, 2));
}

std::map<std::string, at::Tensor> named(const nn::Module& module) {
  std::map<std::string, at::Tensor> parameters;
  for (const auto& parameter : module.named_parameters()) {
    parameters.emplace(parameter.key(), parameter.value());
  }
  return parameters;
}

std::vector<at::Tensor> clones(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors) {
    result.push_back(tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  }
  return result;
}

void expect_equal_all(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    expect_equal(actual[i].detach(), expected[i].detach());
  }
}

/// Captures on some inputs, runs the program on others, and compares with the function. Returns the operators.
std::string captured(
    const CapturedFunction& fn,
    const std::vector<at::Tensor>& inputs,
    const std::vector<at::Tensor>& others) {
  const auto program = capture(fn, clones(inputs));
  for (const auto& given : {inputs, others}) {
    expect_equal_all(run_program(program, clones(given)), fn(clones(given)));
  }
  return operators_of(*program.graph);
}

TEST(Capture, AModelIsItsOperatorsOnNamedParameters) {
  auto mlp = make_mlp();
  const auto fn = [&](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{mlp->forward(in[0])}; };
  const auto program = capture(fn, {at::randn({3, 4})}, {.parameters = named(*mlp)});
  EXPECT_EQ(operators_of(*program.graph), "t addmm gelu t addmm");
  ASSERT_EQ(program.inputs.size(), 5U);
  EXPECT_EQ(program.inputs[0].kind, InputKind::Parameter);
  EXPECT_EQ(program.inputs[0].target, "0.bias");
  EXPECT_EQ(program.inputs[0].value->name(), "p_0_bias");
  EXPECT_EQ(program.inputs[4].kind, InputKind::User);
  EXPECT_EQ(program.inputs[4].value->name(), "input_0");
  EXPECT_TRUE(program.tensors.at("0.weight").is_same(mlp->parameters()[0]));
  EXPECT_EQ(program.outputs.size(), 1U);
  EXPECT_FALSE(program.mesh.has_value());
  EXPECT_EQ(program.graph->return_node()->operand(0)->tensor().sizes, (Sizes{3, 2}));
  const auto x = at::randn({3, 4});
  expect_equal_all(run_program(program, {x}), fn({x}));
  EXPECT_EQ(capture(fn, {x}).inputs[0].target, "parameter_0") << "without names";
}

TEST(Capture, CompositeOperatorsAreOneCallUnlessBackwardNeedsTheirInnerTensors) {
  const auto w = at::randn({2, 4}).set_requires_grad(true);
  const auto forward = [&](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{at::linear(in[0], w).relu()};
  };
  EXPECT_EQ(captured(forward, {at::randn({3, 4})}, {at::randn({3, 4})}), "linear relu");
  const auto of_weight = [&](const std::vector<at::Tensor>& in) {
    const auto h = at::dropout(at::linear(in[0], w), 0.5, /*train=*/false);
    return std::vector<at::Tensor>{at::layer_norm(h, {2}), torch::autograd::grad({at::linear(in[0], w).sum()}, {w})[0]};
  };
  EXPECT_EQ(
      captured(of_weight, {at::randn({3, 4})}, {at::randn({3, 4})}),
      "linear layer_norm linear sum ones_like expand t mm t t");
  const auto of_input = [&](const std::vector<at::Tensor>& in) {
    return std::vector<at::Tensor>{torch::autograd::grad({at::linear(in[0], w).sum()}, {in[0]})[0]};
  };
  const auto leaf = [] { return at::randn({3, 4}).set_requires_grad(true); };
  EXPECT_EQ(captured(of_input, {leaf()}, {leaf()}), "t matmul sum ones_like expand t mm")
      << "the transposed weight is kept";
}

TEST(Capture, GradientsComeOfTheOperatorsOfBackward) {
  auto mlp = make_mlp();
  const auto fn = [&](const std::vector<at::Tensor>& in) {
    const auto loss = at::mse_loss(mlp->forward(in[0]), in[1]);
    return std::vector<at::Tensor>(torch::autograd::grad({loss}, mlp->parameters()));
  };
  const std::vector<at::Tensor> inputs{at::randn({3, 4}), at::randn({3, 2})};
  const auto operators = captured(fn, inputs, {at::randn({3, 4}), at::randn({3, 2})});
  EXPECT_EQ(operators.find("t addmm gelu t addmm mse_loss ones_like mse_loss_backward"), 0U) << operators;
}

TEST(Capture, ATrainingStepWritesToTheParameters) {
  const auto step_of = [](nn::Sequential mlp, torch::optim::Optimizer& optimizer) -> CapturedFunction {
    return [mlp, &optimizer](const std::vector<at::Tensor>& in) mutable {
      optimizer.zero_grad();
      const auto loss = at::cross_entropy_loss(mlp->forward(in[0]), in[1]);
      loss.backward();
      optimizer.step();
      return std::vector<at::Tensor>{loss};
    };
  };
  const std::vector<at::Tensor> inputs{at::randn({3, 4}), at::tensor({0, 1, 1}, at::kLong)};
  auto mlp = make_mlp();
  torch::optim::SGD optimizer(mlp->parameters(), torch::optim::SGDOptions(0.5).weight_decay(0.1));
  const auto program = capture(step_of(mlp, optimizer), inputs, {.parameters = named(*mlp)});
  const auto other = make_mlp();
  torch::optim::SGD by_hand(other->parameters(), torch::optim::SGDOptions(0.5).weight_decay(0.1));
  const auto step = step_of(other, by_hand);
  step(inputs);
  expect_equal_all(mlp->parameters(), other->parameters());
  for (int i = 0; i < 3; ++i) {
    expect_equal_all(run_program(program, inputs), step(inputs));
    expect_equal_all(mlp->parameters(), other->parameters());
  }
}

TEST(Capture, StatesOfAnOptimizerAreBuffers) {
  auto mlp = make_mlp();
  torch::optim::SGD optimizer(mlp->parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  const auto step = [&](const std::vector<at::Tensor>& in) {
    optimizer.zero_grad();
    mlp->forward(in[0]).square().sum().backward();
    optimizer.step();
    return std::vector<at::Tensor>{};
  };
  const std::vector<at::Tensor> inputs{at::randn({3, 4})};
  step(inputs);
  const auto program = capture(step, inputs);
  EXPECT_EQ(program.tensors.count("parameter_3"), 1U);
  EXPECT_EQ(program.tensors.count("buffer_3"), 1U);
  EXPECT_EQ(program.tensors.count("constant_0"), 0U);
}

TEST(Capture, AttentionWithViewsAndItsGradient) {
  const auto attention = [](const std::vector<at::Tensor>& in) {
    const auto heads = [](const at::Tensor& x) { return x.view({2, 3, 2, 4}).transpose(1, 2); };
    const auto parts = in[0].chunk(3, -1);
    const auto scores = heads(parts[0]).matmul(heads(parts[1]).transpose(-2, -1)) / 2;
    const auto mask = at::ones({3, 3}, at::kBool).tril();
    const auto weights = scores.masked_fill(mask.logical_not(), -1e9).softmax(-1);
    const auto out = weights.matmul(heads(parts[2])).transpose(1, 2).reshape({2, 3, 8});
    return out;
  };
  const std::vector<at::Tensor> inputs{at::randn({2, 3, 24}).set_requires_grad(true)};
  const std::vector<at::Tensor> others{at::randn({2, 3, 24}).set_requires_grad(true)};
  captured([&](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{attention(in)}; }, inputs, others);
  captured(
      [&](const std::vector<at::Tensor>& in) {
        const auto out = attention(in);
        return std::vector<at::Tensor>{out, torch::autograd::grad({out.square().sum()}, {in[0]})[0]};
      },
      inputs, others);
  const auto fused = [](const std::vector<at::Tensor>& in) {
    const auto out = at::scaled_dot_product_attention(in[0], in[0], in[0], {}, 0.0, true);
    return std::vector<at::Tensor>{out, torch::autograd::grad({out.square().sum()}, {in[0]})[0]};
  };
  captured(fused, {at::randn({1, 2, 4, 8}).requires_grad_()}, {at::randn({1, 2, 4, 8}).requires_grad_()});
}

TEST(Capture, OperatorsInPlaceStayInPlace) {
  const auto fn = [](const std::vector<at::Tensor>& in) {
    auto x = in[0].clone();
    const auto row = x[0];
    x.add_(in[1]);
    x.select(0, 1).mul_(2);
    x.relu_();
    return std::vector<at::Tensor>{x, row + 1, x.sum()};
  };
  const std::vector<at::Tensor> inputs{at::randn({2, 3}), at::randn({3})};
  EXPECT_EQ(
      captured(fn, inputs, {at::randn({2, 3}), at::randn({3})}),
      "clone select.int add_.Tensor select.int mul_.Scalar relu_ add.Scalar sum");
}

TEST(Capture, GradientsThroughOperatorsInPlace) {
  const auto fn = [](const std::vector<at::Tensor>& in) {
    auto x = in[0] * 2;
    x.mul_(in[1]); // keeps what x was for backward
    x[0].mul_(in[1][0]);
    auto y = x * 3;
    y.div_(in[1]);
    const auto gradients = torch::autograd::grad({y.sum()}, {in[0], in[1]});
    return std::vector<at::Tensor>{gradients[0], gradients[1]};
  };
  const auto leaf = [](c10::IntArrayRef sizes) { return at::rand(sizes).add_(0.5).set_requires_grad(true); };
  captured(fn, {leaf({2, 3}), leaf({2, 3})}, {leaf({2, 3}), leaf({2, 3})});
}

TEST(Capture, ManyOutputsListsAndFactories) {
  const auto fn = [](const std::vector<at::Tensor>& in) {
    const auto parts = in[0].split(2, 1);
    const auto [values, indices] = parts[0].topk(1, 0);
    const auto joined = at::cat({parts[1], at::zeros({1, 2}), values}, 0);
    const auto steps = at::arange(2, in[0].options());
    const auto rows = joined.index({at::tensor({1, 0}, at::kLong)});
    return std::vector<at::Tensor>{joined * steps, indices, rows, at::stack(at::unbind(in[0], 1), 0)};
  };
  const auto program = capture(fn, {at::randn({3, 4})});
  EXPECT_EQ(program.tensors.size(), 1U) << "the positions, whose memory no operator filled";
  captured(fn, {at::randn({3, 4})}, {at::randn({3, 4})});
}

TEST(Capture, LayersThatKeepMoreThanTheyGiveForBackward) {
  torch::manual_seed(2);
  nn::Sequential net(
      nn::Conv2d(nn::Conv2dOptions(2, 4, 3).padding(1)), nn::BatchNorm2d(4), nn::SiLU(), nn::GroupNorm(2, 4),
      nn::MaxPool2d(2), nn::Flatten(), nn::LayerNorm(nn::LayerNormOptions({16})), nn::Linear(16, 3));
  net->eval();
  const auto fn = [&](const std::vector<at::Tensor>& in) {
    const auto out = at::log_softmax(net->forward(in[0]), -1);
    return std::vector<at::Tensor>(torch::autograd::grad({out.select(1, 0).sum()}, net->parameters()));
  };
  captured(fn, {at::randn({2, 2, 4, 4})}, {at::randn({2, 2, 4, 4})});
  nn::GRU gru(nn::GRUOptions(3, 4).batch_first(true));
  const auto recurrent = [&](const std::vector<at::Tensor>& in) {
    const auto out = std::get<0>(gru->forward(in[0]));
    return std::vector<at::Tensor>(torch::autograd::grad({out.sum()}, gru->parameters()));
  };
  captured(recurrent, {at::randn({2, 3, 3})}, {at::randn({2, 3, 3})});
}

TEST(Capture, WhatIsNoOperatorRaises) {
  const auto text = [](const CapturedFunction& fn) {
    return error_text<c10::NotImplementedError>([&] { capture(fn, {at::ones({2, 2})}); });
  };
  expect_contains(
      text([](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{in[0] * in[0].sum().item()}; }),
      "but got aten::item, whose result is a number that is read out of a tensor. Keep it a tensor");
  expect_contains(
      text([](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{in[0].nonzero()}; }),
      "of a size that depends on values");
  expect_contains(
      text([](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{in[0].index({in[0] > 0})}; }),
      "of a size that depends on values");
  expect_contains(
      text([](const std::vector<at::Tensor>& in) {
        at::autocast::set_autocast_enabled(at::kCPU, true);
        const auto off = c10::make_scope_exit([] { at::autocast::set_autocast_enabled(at::kCPU, false); });
        return std::vector<at::Tensor>{in[0].mm(in[0])};
      }),
      "with autocast on. Convert the model");
  const auto outer = at::ones({2, 2});
  const auto view = outer.t();
  expect_contains(
      text([&](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{in[0] + outer + view}; }),
      "Take the view inside of the function");
  expect_contains(
      error_text<c10::ValueError>(
          [&] { capture([](const std::vector<at::Tensor>& in) { return in; }, {outer, view}); }),
      "inputs must not share memory");
  expect_contains(
      error_text<c10::ValueError>([&] {
        capture([](const std::vector<at::Tensor>&) { return std::vector<at::Tensor>{at::Tensor()}; }, {outer});
      }),
      "outputs must be tensors");
  expect_contains(
      error_text<c10::ValueError>([&] {
        capture(
            [](const std::vector<at::Tensor>& in) {
              capture([](const std::vector<at::Tensor>& x) { return x; }, in);
              return in;
            },
            {outer});
      }),
      "one inside of another");
}

TEST(Capture, ErrorsLeaveNothingBehind) {
  const auto before = c10::impl::tls_local_dispatch_key_set();
  EXPECT_THROW(
      capture(
          [](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{in[0].mm(at::ones({3}))}; },
          {at::ones({2, 2})}),
      c10::Error);
  EXPECT_THROW(
      capture([](const std::vector<at::Tensor>&) -> std::vector<at::Tensor> { throw std::runtime_error("mine"); }, {}),
      std::runtime_error);
  const auto after = c10::impl::tls_local_dispatch_key_set();
  EXPECT_TRUE(before.included_ == after.included_ && before.excluded_ == after.excluded_);
  EXPECT_TRUE(c10::AutogradState::get_tls_state().get_multithreading_enabled());
  const auto tried = capture(
      [](const std::vector<at::Tensor>& in) {
        try {
          in[0].mm(at::ones({3}));
        } catch (const c10::Error&) {
          return std::vector<at::Tensor>{in[0] + 1};
        }
        return in;
      },
      {at::ones({2, 2})});
  EXPECT_EQ(operators_of(*tried.graph), "ones add.Scalar");
}

} // namespace capture_test

} // namespace weft::graph
