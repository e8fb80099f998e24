#include "weft/graph/replay/captured_step.h"

#include "bench/decoder.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/comm_log.h"
#include "weft/graph/ir/print.h"
#include "weft/nn/clip_grad_norm.h"
#include "weft/nn/parallelize_module.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

namespace weft::graph {

namespace captured_step_test {
using namespace weft::testing;
using Tensors = std::vector<at::Tensor>;

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

constexpr int64_t kVocabulary = 20, kDim = 16, kHeads = 4, kBatch = 4, kLength = 7;

const nn::ParallelPlan kTensorParallel = nn::ParallelPlan::parse(R"json({
  "blocks.*.attention.[qkv]*": "colwise", "blocks.*.attention.output": "rowwise",
  "blocks.*.feed_forward.gate": "colwise", "blocks.*.feed_forward.up": "colwise",
  "blocks.*.feed_forward.down": "rowwise", "logits": "colwise"})json");
/// Seven positions over two ranks: shards of different sizes.
const nn::ParallelPlan kSequenceParallel = nn::ParallelPlan::parse(R"json({
  "tokens": {"style": "output", "outputs": ["-> S(1)"]}, "blocks.*.*_norm": "sequence",
  "blocks.*.attention.[qkv]*": "colwise", "blocks.*.attention.output": {"style": "rowwise", "output": "S(1)"},
  "blocks.*.feed_forward.gate": "colwise", "blocks.*.feed_forward.up": "colwise",
  "blocks.*.feed_forward.down": {"style": "rowwise", "output": "S(1)"}, "norm": "sequence", "logits": "colwise"})json");

/// Ranks that are threads share the generator.
std::lock_guard<std::mutex> seeded(uint64_t seed) {
  static std::mutex one_at_a_time;
  one_at_a_time.lock();
  torch::manual_seed(seed);
  return {one_at_a_time, std::adopt_lock};
}

nn::Parallel<bench::Decoder> make_decoder() {
  const auto scope = seeded(0);
  return nn::Parallel<bench::Decoder>(kVocabulary, kDim, /*count=*/2, kHeads);
}

/// Inputs and targets of a step, sharded over the first mesh dim where `layout` says so.
Tensors batch(const DeviceMesh& mesh, const Layout& layout, uint64_t seed) {
  at::Tensor tokens;
  {
    const auto scope = seeded(100 + seed);
    tokens = torch::randint(kVocabulary, {kBatch, kLength + 1});
  }
  const auto distributed = [&](const at::Tensor& global) {
    return distribute_tensor(global.contiguous(), mesh, layout);
  };
  return {distributed(tokens.slice(1, 0, kLength)), distributed(tokens.slice(1, 1, kLength + 1))};
}

void expect_same_bits(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(is_dtensor(actual), is_dtensor(expected));
  if (is_dtensor(actual)) {
    EXPECT_EQ(as_dtensor(actual)->spec(), as_dtensor(expected)->spec());
    expect_equal(as_dtensor(actual)->local(), as_dtensor(expected)->local());
  } else {
    expect_equal(actual.detach(), expected.detach());
  }
}

void expect_same_bits(const Tensors& actual, const Tensors& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    expect_same_bits(actual[i], expected[i]);
  }
}

/// Trains two equal decoders, one by a captured step, and expects equal losses, parameters and states.
void expect_replay_is_eager(
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const Layout& layout,
    int64_t mesh_dim) {
  const auto make = [&] {
    auto model = make_decoder();
    nn::parallelize_module(*model, mesh, plan, {.mesh_dim = mesh.names()[mesh_dim]});
    return std::make_shared<bench::Training>(model);
  };
  const auto eager = make();
  const auto replayed = make();
  CapturedStep step([&](const Tensors& in) { return Tensors{replayed->take_step(in[0], in[1])}; });
  for (int i = 0; i < 5; ++i) {
    const auto in = batch(mesh, layout, i);
    EXPECT_EQ(step.is_recorded(), i >= 2);
    const auto loss = step.run(in)[0];
    expect_same_bits(loss, eager->take_step(in[0], in[1]).detach());
    expect_same_bits(replayed->tensors(), eager->tensors());
  }
}

TEST(CapturedStep, ReplaysATensorParallelStepBitwise) {
  on_mesh({2}, [](const DeviceMesh& mesh) { expect_replay_is_eager(mesh, kTensorParallel, {Replicate()}, 0); });
}

TEST(CapturedStep, ReplaysSequenceParallelismOfUnevenShards) {
  on_mesh({2}, [](const DeviceMesh& mesh) { expect_replay_is_eager(mesh, kSequenceParallel, {Replicate()}, 0); });
}

TEST(CapturedStep, ReplaysDataAndTensorParallelismTogether) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    expect_replay_is_eager(mesh, kTensorParallel, {Shard(0), Replicate()}, 1);
  });
}

TEST(CapturedStep, ReplaysFourRanks) {
  on_mesh({4}, [](const DeviceMesh& mesh) { expect_replay_is_eager(mesh, kSequenceParallel, {Replicate()}, 0); });
}

RANK_ROLE(captured_step_of_processes) {
  expect_replay_is_eager(init_device_mesh("cpu", {2}, {"tp"}), kSequenceParallel, {Replicate()}, 0);
  say(::testing::Test::HasFailure() ? "failed" : "equal");
}

TEST(CapturedStep, ReplaysOnProcesses) {
  for (const auto& rank : run_process_ranks("captured_step_of_processes", 2)) {
    EXPECT_TRUE(rank.has_line("equal")) << rank.output;
  }
}

/// A linear layer of distributed tensors, trained by an optimizer of torch.
struct SmallTraining {
  explicit SmallTraining(const DeviceMesh& mesh)
      : weight(
            distribute_tensor(at::arange(12, at::kFloat).view({4, 3}) / 12, mesh, {Shard(0)}).set_requires_grad(true)) {
  }

  at::Tensor gradient_of(const Tensors& in) {
    auto loss = at::mse_loss(at::linear(in[0], weight), in[1]);
    loss.backward();
    return loss;
  }

  at::Tensor weight;
};

Tensors small_batch(const DeviceMesh& mesh, float scale = 1) {
  const auto distributed = [&](const at::Tensor& global) { return distribute_tensor(global, mesh, {Replicate()}); };
  return {
      distributed(at::arange(6, at::kFloat).view({2, 3}) * scale),
      distributed(at::arange(8, at::kFloat).view({2, 4}) / scale)};
}

TEST(CapturedStep, AFirstCallThatMakesStatesIsForgiven) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    SmallTraining eager(mesh);
    SmallTraining replayed(mesh);
    const auto step_of = [&](SmallTraining& training) {
      const auto options = torch::optim::SGDOptions(0.01).momentum(0.9);
      const auto optimizer = std::make_shared<torch::optim::SGD>(Tensors{training.weight}, options);
      return [&training, optimizer](const Tensors& in) {
        const auto loss = training.gradient_of(in);
        optimizer->step();
        optimizer->zero_grad();
        return Tensors{loss};
      };
    };
    const auto eager_step = step_of(eager);
    CapturedStep step(step_of(replayed));
    for (int i = 0; i < 6; ++i) {
      const auto in = small_batch(mesh, static_cast<float>(1 + i));
      EXPECT_EQ(step.is_recorded(), i >= 3) << "the momentum buffer is made in the first step";
      expect_same_bits(step.run(in)[0], eager_step(in)[0].detach());
      expect_same_bits(replayed.weight, eager.weight);
    }
  });
}

/// The error of the call that raises one, of three.
template <class Fn>
std::string error_of_calls(const DeviceMesh& mesh, Fn fn) {
  CapturedStep step(fn);
  return error_text([&] {
    for (int i = 0; i < 3; ++i) {
      step.run(small_batch(mesh));
    }
  });
}

TEST(CapturedStep, NumbersThatChangeWithEveryStepRaise) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    SmallTraining training(mesh);
    torch::optim::AdamW optimizer({training.weight}, torch::optim::AdamWOptions(0.1));
    const auto text = error_of_calls(mesh, [&](const Tensors& in) {
      const auto loss = training.gradient_of(in);
      optimizer.step();
      optimizer.zero_grad();
      return Tensors{loss};
    });
    expect_contains(text, "[CapturedStep] a function that does the same in every call is required, but it did '");
  });
}

TEST(CapturedStep, StateThatIsReplacedRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto state = distribute_tensor(at::zeros({2, 3}), mesh, {Shard(0)});
    const auto text = error_of_calls(mesh, [&](const Tensors& in) {
      state = state * 0.5 + in[0];
      return Tensors{state.sum()};
    });
    expect_contains(text, "is another one in every call, which '");
  });
}

TEST(CapturedStep, BranchesOnWhatIsNotRecordedRaise) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    int calls = 0;
    const auto text = error_of_calls(
        mesh, [&](const Tensors& in) { return Tensors{++calls % 2 == 0 ? in[0].relu() : in[0].tanh()}; });
    expect_contains(text, "aten::relu");
    expect_contains(text, "aten::tanh");
  });
}

TEST(CapturedStep, OneRankThatDiffersIsAnErrorOnAll) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    int calls = 0;
    const auto text = error_of_calls(mesh, [&](const Tensors& in) {
      ++calls;
      return Tensors{in[0] * (mesh.rank(0) == 1 ? calls : 1)};
    });
    expect_contains(text, mesh.rank(0) == 1 ? "aten::mul" : "on another rank");
  });
}

TEST(CapturedStep, WhatCannotBeRecordedRaisesInTheFirstCall) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto expect_error = [&](const CapturedFunction& fn, const std::string& part) {
      CapturedStep step(fn);
      const auto text = error_text([&] { step.run(small_batch(mesh)); });
      expect_contains(text, part);
    };
    expect_error([](const Tensors& in) { return Tensors{in[0] * in[0].sum().item<float>()}; }, "a number that is read");
    expect_error([](const Tensors& in) { return Tensors{at::dropout(in[0], 0.5, true)}; }, "[random]");
    expect_error([](const Tensors& in) { return Tensors{in[0].view({-1})}; }, "results must have memory of their own");
    SmallTraining training(mesh);
    expect_error([&](const Tensors& in) { return Tensors{training.gradient_of(in).detach()}; }, "no new gradients");
    CapturedStep inner([](const Tensors& in) { return Tensors{in[0] + 1}; });
    expect_error([&](const Tensors& in) { return inner.run(in); }, "one inside of another");
  });
}

TEST(CapturedStep, PlainRandomNumbersRaiseOnRanksThatAreThreads) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto text =
        error_of_calls(mesh, [&](const Tensors& in) { return Tensors{in[0].sum() + at::rand({}).abs()}; });
    expect_contains(text, "[CapturedStep] ranks that are threads share torch's generator");
  });
}

TEST(CapturedStep, CommunicationThatIsNotRecordedRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    CapturedStep sends(
        [&](const Tensors& in) { return Tensors{in[0] * distribute_tensor(at::ones({3}), mesh, {Replicate()})}; });
    expect_contains(error_text([&] { sends.run(small_batch(mesh)); }), "a collective is required outside of a step");
  });
}

/// A step that is recorded by two calls on these inputs.
CapturedStep recorded(const CapturedFunction& fn, const Tensors& inputs) {
  CapturedStep step(fn);
  for (int i = 0; i < 2; ++i) {
    expect_contains(error_text([&] { step.program(); }), "[CapturedStep] a program is there once");
    step.run(inputs);
  }
  EXPECT_TRUE(step.is_recorded());
  return step;
}

TEST(CapturedStep, OtherInputsMustHaveTheSameForm) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = at::arange(8, at::kFloat).view({4, 2});
    const auto sharded = distribute_tensor(x, mesh, {Shard(0)});
    auto step = recorded([](const Tensors& in) { return Tensors{in[0] * 2}; }, {sharded});
    expect_same_bits(step.run({sharded + 1}), {sharded * 2 + 2});
    const auto expect_error = [&](const Tensors& inputs, const std::string& part) {
      expect_contains(error_text([&] { step.run(inputs); }), part);
    };
    expect_error(
        {distribute_tensor(x, mesh, {Replicate()})}, "[CapturedStep] input 0 must be as in the first call, f32[4,2]");
    expect_error({x}, "but got a plain tensor of float and shape [4, 2]");
    expect_error({sharded, sharded}, "1 inputs are required, as in the first call, but got 2");
    expect_same_bits(step.run({sharded + 2}), {sharded * 2 + 4});
  });
}

TEST(CapturedStep, AReplayCommunicatesAsTheFunctionDoes) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::arange(8, at::kFloat).view({4, 2}), mesh, {Shard(0)});
    const CapturedFunction fn = [](const Tensors& in) {
      return Tensors{redistribute(in[0], {Shard(1)}), redistribute(in[0].sum(0), {Replicate()})};
    };
    auto step = recorded(fn, {x});
    const auto bytes_of = [&](const std::function<Tensors()>& call) {
      CommLog log(mesh);
      const auto results = call();
      for (const auto& result : results) {
        as_dtensor(result)->local();
      }
      return std::pair(log.calls(), log.bytes());
    };
    const auto eager = bytes_of([&] { return fn({x}); });
    const auto replayed = bytes_of([&] { return step.run({x}); });
    EXPECT_EQ(replayed, eager);
    EXPECT_EQ(eager.first, 2);
    const auto text = to_string(step.program());
    expect_contains(text, "weft::redistribute_local(");
    expect_contains(text, "_c10d_functional::all_reduce(");
  });
}

TEST(CapturedStep, WritesToInputsBuffersAndStatisticsInPlace) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto run = [&](bool captures) {
      const auto distributed = [&](const at::Tensor& global) { return distribute_tensor(global, mesh, {Replicate()}); };
      const auto mean = distributed(at::zeros({3}));
      const auto variance = distributed(at::ones({3}));
      const CapturedFunction fn = [&](const Tensors& in) {
        in[1].add_(1);
        return Tensors{at::batch_norm(in[0], {}, {}, mean, variance, /*training=*/true, 0.1, 1e-5, false)};
      };
      CapturedStep step(fn);
      const auto count = distribute_tensor(at::zeros({4}), mesh, {Shard(0)});
      Tensors all;
      for (int i = 0; i < 5; ++i) {
        const auto x = distribute_tensor((at::arange(24, at::kFloat) + i).view({8, 3}).sin(), mesh, {Shard(0)});
        all.push_back((captures ? step.run({x, count}) : fn({x, count}))[0]);
      }
      EXPECT_EQ(step.is_recorded(), captures);
      all.insert(all.end(), {mean, variance, count});
      EXPECT_EQ(count._version(), 5U) << "autograd must know of every write";
      return all;
    };
    expect_same_bits(run(true), run(false));
  });
}

TEST(CapturedStep, ClipsGradientsAndChecksClassesInEveryReplay) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto train = [&](bool captures) {
      auto model = make_decoder();
      nn::parallelize_module(*model, mesh, kSequenceParallel);
      const auto parameters = model->parameters();
      const CapturedFunction fn = [&](const Tensors& in) {
        const auto loss = at::cross_entropy_loss(model(in[0]).flatten(0, 1), in[1].flatten());
        loss.backward();
        const auto norm = nn::clip_grad_norm_(parameters, 0.1);
        const torch::NoGradGuard no_grad;
        for (auto parameter : parameters) {
          parameter.sub_(parameter.grad(), 0.1);
          parameter.mutable_grad().reset();
        }
        return Tensors{loss, norm};
      };
      CapturedStep step(fn);
      Tensors all;
      for (int i = 0; i < 4; ++i) {
        const auto in = batch(mesh, {Replicate()}, i);
        for (const auto& result : captures ? step.run(in) : fn(in)) {
          all.push_back(result.detach());
        }
      }
      if (captures) {
        const auto in = batch(mesh, {Replicate()}, 5);
        expect_contains(
            error_text([&] { step.run({in[0], in[1] + kVocabulary}); }), "targets must be classes from 0 to 19");
      }
      all.insert(all.end(), parameters.begin(), parameters.end());
      return all;
    };
    expect_same_bits(train(true), train(false));
  });
}

TEST(CapturedStep, RecordedTensorsMustKeepTheirMemory) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto weight = distribute_tensor(at::ones({4, 2}), mesh, {Shard(0)});
    const auto x = distribute_tensor(at::ones({4, 2}), mesh, {Shard(0)});
    auto step = recorded([&](const Tensors& in) { return Tensors{in[0] * weight}; }, {x});
    weight.mul_(3);
    expect_same_bits(step.run({x}), {x * 3});
    weight.set_data(weight.clone());
    expect_contains(error_text([&] { step.run({x}); }), "must keep their memory");
  });
}

} // namespace captured_step_test

} // namespace weft::graph
