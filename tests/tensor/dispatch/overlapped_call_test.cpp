#include "weft/tensor/dispatch/overlapped_call.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/sample_tensors.h"
#include "weft/comm/collectives.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/world/fake_world.h"
#include "weft/overlap/measure/mesh_rates.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/scopes.h"

namespace weft {

namespace overlapped_call_test {
using namespace weft::testing;
using Tensors = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Tensors&)>;

at::Tensor numbers(c10::IntArrayRef sizes, at::ScalarType dtype = at::kDouble) {
  return sample(static_cast<int64_t>(sizes.size()), sizes, dtype) - 1;
}

int64_t calls(const CommLog& log, Collective collective) {
  int64_t count = 0;
  for (const auto& row : log.rows()) {
    count += row.collective == collective ? row.calls : 0;
  }
  return count;
}

struct Outcome {
  at::Tensor output;
  Layout layout;
  Tensors gradients; // global
  int64_t gathers;
  int64_t messages;
};

/// Forward and backward on leaves of these layouts; only the forward's communication is counted.
Outcome run(
    const DeviceMesh& mesh,
    const Function& function,
    const Tensors& inputs,
    const std::vector<Layout>& layouts,
    OverlapMode mode) {
  const OverlapScope scope(mode);
  Tensors leaves;
  for (size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(distribute_tensor(inputs[i], mesh, layouts[i]).set_requires_grad(true));
  }
  // A leaf would count as a parameter, which is not redistributed.
  auto arguments = leaves;
  arguments[0] = leaves[0] * 1;
  Outcome outcome;
  {
    const CommLog log(mesh);
    outcome.output = function(arguments);
    outcome.gathers = calls(log, Collective::AllGather);
    outcome.messages = calls(log, Collective::Send);
  }
  outcome.layout = as_dtensor(outcome.output)->spec()->layout();
  const auto factors =
      distribute_tensor(numbers(outcome.output.sizes(), outcome.output.scalar_type()), mesh, outcome.layout);
  (outcome.output * factors).sum().backward();
  outcome.output = full_tensor(outcome.output.detach());
  for (const auto& leaf : leaves) {
    outcome.gradients.push_back(full_tensor(leaf.grad()));
  }
  return outcome;
}

void expect_same_fused(
    const DeviceMesh& mesh,
    const Function& function,
    const Tensors& inputs,
    const std::vector<Layout>& layouts) {
  const auto fused = run(mesh, function, inputs, layouts, OverlapMode::Force);
  const auto unfused = run(mesh, function, inputs, layouts, OverlapMode::Off);
  EXPECT_EQ(fused.gathers, 0);
  EXPECT_GT(fused.messages, 0);
  EXPECT_EQ(unfused.gathers, 1);
  EXPECT_EQ(unfused.messages, 0);
  EXPECT_EQ(fused.layout, unfused.layout);
  expect_equal(fused.output, unfused.output);
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    expect_equal(fused.gradients[i], unfused.gradients[i]);
  }
}

TEST(OverlappedCall, GivesTheResultOfGatherAndMatmulOneAfterTheOther) {
  for (const int64_t members : {2, 3, 4}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      const auto linear = [](const Tensors& in) { return at::linear(in[0], in[1]); };
      const auto linear_with_bias = [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); };
      const auto matmul = [](const Tensors& in) { return at::matmul(in[0], in[1]); };
      const auto mm = [](const Tensors& in) { return at::mm(in[0], in[1]); };
      const auto addmm = [](const Tensors& in) { return at::addmm(in[2], in[0], in[1]); };
      const auto addmm_with_factors = [](const Tensors& in) { return at::addmm(in[2], in[0], in[1], 3, 2); };
      const Layout columns{Shard(1)};
      const Layout rows{Shard(0)};
      for (const int64_t length : {8, 7, 2}) {
        SCOPED_TRACE(length);
        expect_same_fused(mesh, linear, {numbers({length, 3}), numbers({8, 3})}, {rows, rows});
        expect_same_fused(mesh, linear, {numbers({2, length, 3}), numbers({5, 3})}, {{Shard(1)}, rows});
        expect_same_fused(
            mesh, linear_with_bias, {numbers({2, length, 3}), numbers({5, 3}), numbers({5})}, {{Shard(1)}, rows, rows});
        expect_same_fused(mesh, matmul, {numbers({length, 2, 3}), numbers({3, 5})}, {{Shard(0)}, columns});
        expect_same_fused(mesh, mm, {numbers({length, 3}), numbers({3, 5})}, {rows, columns});
        const Tensors with_bias{numbers({length, 3}), numbers({3, 8}), numbers({8})};
        expect_same_fused(mesh, addmm, with_bias, {rows, columns, rows});
        expect_same_fused(mesh, addmm_with_factors, with_bias, {rows, columns, rows});
        // A matrix that is added is no bias vector.
        const Tensors with_matrix{numbers({length, 3}), numbers({3, 8}), numbers({length, 8})};
        expect_same_fused(mesh, addmm, with_matrix, {rows, columns, columns});
      }
    });
  }
}

TEST(OverlappedCall, LayersTrainTheSame) {
  for (const int64_t members : {2, 3, 4}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      // In backward gathering the gradient of the second layer's output overlaps with a matmul too.
      const auto layers = [](const Tensors& in) {
        return in[0] + at::linear(at::relu(at::linear(in[0], in[1])), in[2]);
      };
      for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
        expect_same_fused(
            mesh, layers, {numbers({2, 6, 3}, dtype), numbers({5, 3}, dtype), numbers({3, 5}, dtype)},
            {{Shard(1)}, {Shard(0)}, {Shard(1)}});
      }
    });
  }
}

TEST(OverlappedCall, OtherMeshDimsStayAsTheyAre) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto linear = [](const Tensors& in) { return at::linear(in[0], in[1], in[2]); };
    expect_same_fused(
        mesh, linear, {numbers({4, 6, 3}), numbers({8, 3}), numbers({8})},
        {{Shard(0), Shard(1)}, {Replicate(), Shard(0)}, {Replicate(), Shard(0)}});
  });
}

TEST(OverlappedCall, WhatIsNoGatherOfRowsIsLeftAlone) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const OverlapScope scope(OverlapMode::Force);
    const auto run_with = [&](const Layout& left, const Layout& right) {
      const auto x = distribute_tensor(numbers({4, 8, 8}), mesh, left);
      const auto weight = distribute_tensor(numbers({8, 8}), mesh, right).set_requires_grad(true);
      const at::NoGradGuard no_grad;
      const CommLog log(mesh);
      expect_equal(full_tensor(at::linear(x, weight)), at::linear(numbers({4, 8, 8}), numbers({8, 8})));
      return calls(log, Collective::Send);
    };
    EXPECT_GT(run_with({Shard(0), Shard(1)}, {Replicate(), Shard(0)}), 0);
    // Two mesh dims shard the rows, or the inner dim is sharded, or nothing is redistributed.
    EXPECT_EQ(run_with({Shard(1), Shard(1)}, {Shard(0), Shard(0)}), 0);
    EXPECT_EQ(run_with({Replicate(), Shard(2)}, {Replicate(), Shard(0)}), 0);
    EXPECT_EQ(run_with({Shard(0), Replicate()}, {Replicate(), Shard(0)}), 0);
  });
}

TEST(OverlappedCall, SmallOnesAreNeitherFusedNorMeasured) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto linear = [](const Tensors& in) { return at::linear(in[0], in[1]); };
    const auto outcome =
        run(mesh, linear, {numbers({8, 3}), numbers({8, 3})}, {{Shard(0)}, {Shard(0)}}, OverlapMode::Auto);
    EXPECT_EQ(outcome.gathers, 1);
    EXPECT_EQ(outcome.messages, 0);
  });
}

/// A call that is large enough for the given rates to decide.
std::pair<int64_t, std::string> messages_at(const Link& link, const Compute& compute) {
  give_rates(link, compute);
  std::mutex mutex;
  std::set<std::pair<int64_t, std::string>> found;
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const at::NoGradGuard no_grad;
    const auto x = distribute_tensor(at::ones({512, 512}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(at::ones({1024, 512}), mesh, {Shard(0)}).set_requires_grad(true);
    const CommLog log(mesh);
    const ExplainLog explained;
    const auto y = at::linear(x, weight);
    {
      const std::lock_guard lock(mutex);
      found.emplace(calls(log, Collective::Send), explained.to_string());
    }
    expect_equal(full_tensor(y), at::full({512, 1024}, 512.0));
  });
  give_rates(std::nullopt, std::nullopt);
  EXPECT_EQ(found.size(), 1u) << "ranks differ";
  return *found.begin();
}

TEST(OverlappedCall, RatesDecideAndAllRanksAgree) {
  const auto [sent, text] = messages_at({1e-4, 125e6}, {1e11, 3e10, 1e-6});
  EXPECT_GT(sent, 0);
  expect_contains(text, "0: all_gather(a: S(0) -> R) overlapped with the matmul, chunks per rank: ");
  expect_contains(text, "; fused: ");
  const auto [none, plain] = messages_at({1e-6, 1e12}, {1e11, 3e10, 1e-6});
  EXPECT_EQ(none, 0);
  EXPECT_EQ(plain.find("fused"), std::string::npos) << plain;
}

TEST(OverlappedCall, TheFirstDecisionOnAMeshSaysThatItMeasures) {
  give_rates(Link{1e-4, 125e6}, Compute{1e11, 3e10, 1e-6});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const at::NoGradGuard no_grad;
    const auto x = distribute_tensor(at::ones({512, 512}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(at::ones({1024, 512}), mesh, {Shard(0)}).set_requires_grad(true);
    const CommLog log(mesh);
    const ExplainLog explained;
    at::linear(x, weight);
    at::linear(x, weight);
    ASSERT_EQ(explained.calls().size(), 3);
    expect_contains(
        explained.calls()[0]->to_string(),
        "measure_rates(mesh(a=2), f32): rates(a=100us,125MB/s; compute=100Gflop/s,30GB/s,1us)");
    std::map<std::string, std::set<Collective>> collectives;
    for (const auto& row : log.rows()) {
      collectives[row.operator_name].insert(row.collective);
    }
    EXPECT_EQ(collectives.size(), 2);
    EXPECT_EQ(collectives["measure_rates"], std::set{Collective::AllReduce});
    EXPECT_FALSE(collectives["aten::linear"].contains(Collective::AllReduce));
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(OverlappedCall, ModesAndRatesMayAlternateOnTheSameShapes) {
  const Compute compute{1e11, 3e10, 1e-6};
  const Link slow{1e-4, 125e6};
  const Link fast{1e-6, 1e12};
  give_rates(slow, compute);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const at::NoGradGuard no_grad;
    const auto x = distribute_tensor(at::ones({512, 512}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(at::ones({1024, 512}), mesh, {Shard(0)}).set_requires_grad(true);
    for (const bool pays : {true, false, true}) {
      barrier(mesh, {0});
      give_rates(pays ? slow : fast, compute);
      measure_rates(mesh);
      for (const auto mode : {OverlapMode::Off, OverlapMode::Force, OverlapMode::Auto, OverlapMode::Force}) {
        const OverlapScope scope(mode);
        const CommLog log(mesh);
        const auto y = at::linear(x, weight);
        const bool is_overlapped = calls(log, Collective::Send) > 0;
        EXPECT_EQ(is_overlapped, mode == OverlapMode::Force || (mode == OverlapMode::Auto && pays));
        expect_equal(full_tensor(y), at::full({512, 1024}, 512.0));
      }
    }
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(OverlappedCall, AnExplanationSaysThatItIsForced) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const OverlapScope scope(OverlapMode::Force);
    const at::NoGradGuard no_grad;
    const auto x = distribute_tensor(numbers({4, 8}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(numbers({6, 8}), mesh, {Shard(0)}).set_requires_grad(true);
    const ExplainLog log;
    at::linear(x, weight);
    EXPECT_EQ(
        log.calls().at(0)->plans.at(0), "0: all_gather(a: S(0) -> R) overlapped with the matmul, chunks per rank: 1");
    expect_contains(log.calls()[0]->why, "; parameters stay where they are; fused: as the scope says");
    const StrictScope strict;
    expect_contains(error_text<c10::ValueError>([&] { at::linear(x, weight); }), "would communicate");
  });
}

TEST(OverlappedCall, RanksThatDoNotAgreeAreToldSo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const OverlapScope scope(mesh.rank(0) == 0 ? OverlapMode::Force : OverlapMode::Off);
    const DebugScope debug;
    const auto x = distribute_tensor(numbers({4, 8}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(numbers({6, 8}), mesh, {Shard(0)});
    const auto text = error_text([&] { at::mm(x, weight.t()); });
    expect_contains(text, "overlap: force");
    expect_contains(text, "overlap: off");
  });
}

TEST(OverlappedCall, InAFakeWorldNothingIsSent) {
  const WorldScope world(make_fake_world(4, 1));
  const auto mesh = init_device_mesh("cpu", {4}, {"a"});
  const at::NoGradGuard no_grad;
  const auto x = make_dtensor(at::ones({512, 1024}), TensorSpec::make(mesh, {Shard(0)}, {2048, 1024}, at::kFloat));
  const auto w = make_dtensor(at::ones({1024, 512}), TensorSpec::make(mesh, {Shard(1)}, {1024, 2048}, at::kFloat));
  const CommLog log(mesh);
  at::mm(x, w.set_requires_grad(true));
  EXPECT_EQ(calls(log, Collective::Send), 0);
}

} // namespace overlapped_call_test

} // namespace weft
