#include "weft/tensor/gradients/gradient_buckets.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/scopes.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <condition_variable>

namespace weft {

namespace gradient_buckets_test {
using namespace weft::testing;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Parameters = std::vector<at::Tensor>;

constexpr int64_t kSide = 8;
constexpr int64_t kBytes = kSide * kSide * 8; // of a parameter

class BucketBytes {
 public:
  explicit BucketBytes(int64_t bytes) : outer_(gradient_bucket_bytes()) {
    set_gradient_bucket_bytes(bytes);
  }
  ~BucketBytes() {
    set_gradient_bucket_bytes(outer_);
  }
  BucketBytes(const BucketBytes&) = delete;
  BucketBytes& operator=(const BucketBytes&) = delete;

 private:
  int64_t outer_;
};

Parameters global_parameters(int64_t count) {
  Parameters parameters;
  for (int64_t i = 0; i < count; ++i) {
    parameters.push_back(whole_numbers({kSide, kSide}, at::kDouble).remainder(3 + i));
  }
  return parameters;
}

/// Replicated along all mesh dims unless a layout is given.
Parameters distributed_parameters(int64_t count, const DeviceMesh& mesh, std::optional<Layout> layout = {}) {
  Parameters parameters;
  for (const auto& global : global_parameters(count)) {
    const auto placed = layout.value_or(Layout(Placements(mesh.ndim(), Replicate())));
    parameters.push_back(distribute_tensor(global, mesh, placed).set_requires_grad(true));
  }
  return parameters;
}

at::Tensor global_batch() {
  return whole_numbers({6, kSide}, at::kDouble).remainder(5);
}

/// Sharded along all mesh dims.
at::Tensor batch_on(const DeviceMesh& mesh) {
  return distribute_tensor(global_batch(), mesh, Layout(Placements(mesh.ndim(), Shard(0))));
}

/// A chain of layers, the last of which gets its gradient first.
at::Tensor loss_of(const Parameters& parameters, at::Tensor x) {
  for (const auto& weight : parameters) {
    x = at::linear(x, weight).remainder(7);
  }
  return x.sum();
}

std::vector<at::Tensor> expected_gradients(int64_t count) {
  auto parameters = global_parameters(count);
  for (auto& weight : parameters) {
    weight.set_requires_grad(true);
  }
  loss_of(parameters, global_batch()).backward();
  std::vector<at::Tensor> gradients;
  for (const auto& weight : parameters) {
    gradients.push_back(weight.grad());
  }
  return gradients;
}

void expect_gradients(const Parameters& parameters, double times = 1) {
  const auto expected = expected_gradients(static_cast<int64_t>(parameters.size()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    ASSERT_TRUE(parameters[i].grad().defined()) << i;
    EXPECT_EQ(spec_of(parameters[i].grad()), spec_of(parameters[i]));
    expect_equal(full_tensor(parameters[i].grad()), expected[i] * times);
  }
}

std::vector<CommLog::Row> gradient_rows(const CommLog& log) {
  std::vector<CommLog::Row> rows;
  for (const auto& row : log.rows()) {
    if (row.operator_name == "gradient") {
      rows.push_back(row);
    }
  }
  return rows;
}

TEST(GradientBuckets, AsManyReductionsAsFullBucketsAndOneForTheRest) {
  const std::vector<std::pair<int64_t, int64_t>> parameters_and_calls = {{1, 1}, {3, 1}, {4, 2}, {7, 3}};
  const BucketBytes bucket(3 * kBytes);
  for (const auto& [count, calls] : parameters_and_calls) {
    on_mesh({2}, [&, count = count, calls = calls](const DeviceMesh& mesh) {
      const auto parameters = distributed_parameters(count, mesh);
      const auto loss = loss_of(parameters, batch_on(mesh));
      const CommLog log(mesh);
      loss.backward();
      const auto rows = gradient_rows(log);
      ASSERT_EQ(rows.size(), 1) << log.to_string();
      EXPECT_EQ(rows[0].collective, Collective::AllReduce);
      EXPECT_EQ(rows[0].calls, calls);
      EXPECT_EQ(rows[0].bytes, count * kBytes);
      EXPECT_EQ(log.calls(), calls) << log.to_string();
      expect_gradients(parameters);
    });
  }
}

TEST(GradientBuckets, ZeroBytesReduceEveryGradientByItself) {
  const BucketBytes bucket(0);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(4, mesh);
    const CommLog log(mesh);
    loss_of(parameters, batch_on(mesh)).backward();
    EXPECT_EQ(gradient_rows(log).at(0).calls, 4) << log.to_string();
    expect_gradients(parameters);
  });
  expect_contains(
      error_text<c10::ValueError>([] { set_gradient_bucket_bytes(-1); }),
      "[set_gradient_bucket_bytes] a number of bytes is required, or 0 for no buckets, but got -1.");
}

TEST(GradientBuckets, GradientsReducedOverOtherMeshDimsGoIntoAnotherBucket) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto replicas = distributed_parameters(2, mesh);
    const auto sharded = distributed_parameters(2, mesh, Layout{Replicate(), Shard(0)});
    const auto sharded_rows = distribute_tensor(global_batch(), mesh, {Shard(0), Replicate()});
    const auto losses = loss_of(replicas, batch_on(mesh)) + at::linear(sharded_rows, sharded[0]).sum() +
        at::linear(sharded_rows, sharded[1]).sum();
    const CommLog log(mesh);
    losses.backward();
    const auto rows = gradient_rows(log);
    ASSERT_EQ(rows.size(), 2) << log.to_string();
    EXPECT_EQ(rows[0].mesh_dims, "a");
    EXPECT_EQ(rows[0].calls, 1);
    EXPECT_EQ(rows[0].bytes, kBytes); // two halves
    EXPECT_EQ(rows[1].mesh_dims, "a,b");
    EXPECT_EQ(rows[1].calls, 1);
    EXPECT_EQ(rows[1].bytes, 3 * 2 * kBytes);
    expect_gradients(replicas);
    for (const auto& weight : sharded) {
      EXPECT_EQ(spec_of(weight.grad()), spec_of(weight));
      expect_equal(full_tensor(weight.grad()), global_batch().sum(0).expand({kSide, kSide}));
    }
  });
}

TEST(GradientBuckets, DtypesDoNotMix) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = batch_on(mesh);
    const auto wide = distributed_parameters(1, mesh)[0];
    const auto narrow = distribute_tensor(at::ones({kSide}), mesh, {Replicate()}).set_requires_grad(true);
    const CommLog log(mesh);
    (at::linear(x, wide).sum() + (x.to(at::kFloat) * narrow).sum()).backward();
    EXPECT_EQ(gradient_rows(log).at(0).calls, 2) << log.to_string();
    expect_equal(full_tensor(wide.grad()), global_batch().sum(0).expand({kSide, kSide}));
    expect_equal(full_tensor(narrow.grad()), global_batch().sum(0).to(at::kFloat));
  });
}

TEST(GradientBuckets, AveragesAndGradientsThatMustBeSlicedFirstAreReducedToo) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    auto leaf = distribute_tensor(global_batch(), mesh, {Replicate(), Shard(0)}).set_requires_grad(true);
    const auto gradient = from_local(global_batch(), mesh, {Partial(ReduceOp::Avg), Replicate()});
    const CommLog log(mesh);
    leaf.clone().backward(gradient);
    const auto rows = gradient_rows(log);
    ASSERT_EQ(rows.size(), 1) << log.to_string();
    EXPECT_EQ(rows[0].mesh_dims, "a");
    EXPECT_EQ(rows[0].bytes, global_batch().numel() * 8 / 2);
    EXPECT_EQ(spec_of(leaf.grad()), spec_of(leaf));
    expect_equal(full_tensor(leaf.grad()), global_batch());
  });
}

/// The identity; its backward calls a function.
struct InBackward : torch::autograd::Function<InBackward> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const std::function<void()>* fn) {
    context->saved_data["fn"] = reinterpret_cast<int64_t>(fn);
    return x.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    (*reinterpret_cast<const std::function<void()>*>(context->saved_data["fn"].toInt()))();
    return {gradients[0], at::Tensor()};
  }
};

TEST(GradientBuckets, BackwardGoesOnWhileABucketIsReduced) {
  const BucketBytes bucket(kBytes);
  std::mutex mutex;
  std::condition_variable changed;
  bool first_rank_is_past = false;
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(2, mesh);
    const auto x = batch_on(mesh);
    const CommLog log(mesh);
    const bool is_first = mesh.coordinate()[0] == 0;
    // The second rank computes its gradient only after the first has started its reduction and gone on with backward.
    const std::function<void()> before_the_bucket = [&] {
      std::unique_lock lock(mutex);
      EXPECT_TRUE(is_first || changed.wait_for(lock, std::chrono::seconds(5), [&] { return first_rank_is_past; }));
      EXPECT_EQ(log.calls(), 0);
    };
    const std::function<void()> after_the_bucket = [&] {
      const std::lock_guard lock(mutex);
      first_rank_is_past = first_rank_is_past || is_first;
      changed.notify_all();
      EXPECT_EQ(log.calls(), 1);
    };
    const auto first = at::linear(x, parameters[0]).remainder(7);
    const auto second = at::linear(InBackward::apply(first, &after_the_bucket), parameters[1]).remainder(7);
    InBackward::apply(second, &before_the_bucket).sum().backward();
    EXPECT_EQ(log.calls(), 2) << log.to_string();
    expect_gradients(parameters);
  });
}

TEST(GradientBuckets, BackwardPassesAccumulate) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    loss_of(parameters, batch_on(mesh)).backward();
    const auto kept = parameters[0].grad();
    loss_of(parameters, batch_on(mesh)).backward();
    EXPECT_TRUE(kept.is_same(parameters[0].grad())) << "it is added to in place";
    expect_gradients(parameters, 2);
    parameters[0].mutable_grad().reset();
    parameters[1].grad().zero_();
    parameters[2].mutable_grad() = at::zeros_like(parameters[2]).detach();
    loss_of(parameters, batch_on(mesh)).backward();
    expect_gradients(parameters);
  });
}

TEST(GradientBuckets, AGradientThatIsChangedLeavesItsNeighboursAlone) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    loss_of(parameters, batch_on(mesh)).backward();
    const auto seen = parameters[1].grad()._version();
    parameters[0].grad().fill_(7);
    parameters[2].grad().mul_(2);
    EXPECT_EQ(parameters[1].grad()._version(), seen);
    expect_equal(full_tensor(parameters[1].grad()), expected_gradients(3)[1]);
  });
}

TEST(GradientBuckets, AParameterWithoutAGradientIsLeftOut) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    const auto unused = distributed_parameters(1, mesh)[0];
    const auto unread = at::linear(batch_on(mesh), unused);
    const CommLog log(mesh);
    loss_of(parameters, batch_on(mesh)).backward();
    EXPECT_FALSE(unused.grad().defined());
    EXPECT_EQ(gradient_rows(log).at(0).bytes, 3 * kBytes);
  });
}

TEST(GradientBuckets, GradientsThatAreReturnedAreReducedAtOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    const auto returned = torch::autograd::grad({loss_of(parameters, batch_on(mesh))}, {parameters[0], parameters[2]});
    EXPECT_EQ(spec_of(returned[0])->layout(), Layout{Replicate()});
    expect_equal(full_tensor(returned[0]), expected_gradients(3)[0]);
    expect_equal(full_tensor(returned[1]), expected_gradients(3)[2]);
    for (const auto& weight : parameters) {
      EXPECT_FALSE(weight.grad().defined());
    }
  });
}

TEST(GradientBuckets, OnlyTheLeavesThatWereAskedForAccumulate) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    const CommLog log(mesh);
    torch::autograd::backward(
        {loss_of(parameters, batch_on(mesh))}, {}, false, false, /*inputs=*/{parameters[0], parameters[2]});
    EXPECT_EQ(gradient_rows(log).at(0).calls, 1) << log.to_string();
    EXPECT_FALSE(parameters[1].grad().defined());
    expect_equal(full_tensor(parameters[0].grad()), expected_gradients(3)[0]);
    expect_equal(full_tensor(parameters[2].grad()), expected_gradients(3)[2]);
  });
}

TEST(GradientBuckets, AGradientThatIsToHaveAGradientKeepsItsHistory) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto weight = distributed_parameters(1, mesh)[0];
    at::linear(batch_on(mesh), weight).square().sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    const auto gradient = weight.grad();
    EXPECT_TRUE(gradient.requires_grad());
    EXPECT_EQ(spec_of(gradient)->layout(), Layout{Replicate()});
    const auto second = torch::autograd::grad({gradient.sum()}, {weight})[0];
    expect_equal(full_tensor(second), (global_batch().t().matmul(global_batch()) * 2).sum(0).expand({kSide, kSide}));
    weight.mutable_grad().reset();
  });
}

/// A subgraph that runs its own backward pass inside of another, as activation checkpoints do.
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Parameters* parameters) {
    context->save_for_backward({x});
    context->saved_data["parameters"] = reinterpret_cast<int64_t>(parameters);
    return run(x, *parameters);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::AutoGradMode with_graph(true);
    const auto x = context->get_saved_variables()[0].detach().set_requires_grad(true);
    const auto& parameters = *reinterpret_cast<const Parameters*>(context->saved_data["parameters"].toInt());
    run(x, parameters).backward(gradients[0]);
    return {x.grad(), at::Tensor()};
  }
  static at::Tensor run(const at::Tensor& x, const Parameters& parameters) {
    auto result = x;
    for (const auto& weight : parameters) {
      result = at::linear(result, weight).remainder(7);
    }
    return result;
  }
};

TEST(GradientBuckets, APassInsideOfAnotherHasItsOwnBuckets) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(5, mesh);
    const Parameters inner(parameters.begin() + 1, parameters.begin() + 3);
    auto x = at::linear(batch_on(mesh), parameters[0]).remainder(7);
    x = Checkpoint::apply(x, &inner);
    x = loss_of({parameters[3], parameters[4]}, x);
    const CommLog log(mesh);
    x.backward();
    EXPECT_EQ(gradient_rows(log).at(0).calls, 2) << log.to_string();
    EXPECT_EQ(gradient_rows(log).at(0).bytes, 5 * kBytes);
    expect_gradients(parameters);
  });
}

TEST(GradientBuckets, ALeafMayAppearInAPassAndInOneInsideOfIt) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto weight = distributed_parameters(1, mesh)[0];
    const Parameters inner = {weight};
    at::linear(Checkpoint::apply(at::linear(batch_on(mesh), weight), &inner), weight).sum().backward();
    auto plain = global_parameters(1)[0].set_requires_grad(true);
    at::linear(at::linear(at::linear(global_batch(), plain), plain).remainder(7), plain).sum().backward();
    expect_equal(full_tensor(weight.grad()), plain.grad());
  });
}

TEST(GradientBuckets, WhatAFailedPassHasGatheredIsForgotten) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    const std::function<void()> fail = [] { TORCH_CHECK_VALUE(false, "an error in the middle of backward"); };
    const auto first = at::linear(batch_on(mesh), parameters[0]).remainder(7);
    const auto loss = loss_of({parameters[1], parameters[2]}, InBackward::apply(first, &fail));
    expect_contains(error_text([&] { loss.backward(); }), "an error in the middle of backward");
    for (const auto& weight : parameters) {
      EXPECT_FALSE(weight.grad().defined());
    }
    loss_of(parameters, batch_on(mesh)).backward();
    expect_gradients(parameters);
  });
}

TEST(GradientBuckets, ABucketUnderWayOutlivesAPassThatFails) {
  const BucketBytes bucket(kBytes);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    const std::function<void()> fail = [] { TORCH_CHECK_VALUE(false, "an error in the middle of backward"); };
    const auto first = at::linear(batch_on(mesh), parameters[0]).remainder(7);
    const auto loss = loss_of({parameters[1], parameters[2]}, InBackward::apply(first, &fail));
    expect_contains(error_text([&] { loss.backward(); }), "an error in the middle of backward");
    loss_of(parameters, batch_on(mesh)).backward();
    expect_gradients(parameters);
  });
}

TEST(GradientBuckets, BackwardRaisesWhatACollectiveRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    const auto loss = loss_of(parameters, batch_on(mesh));
    if (mesh.coordinate()[0] == 0) {
      expect_contains(error_text([&] { loss.backward(); }), "rank 1 does not participate");
    }
  });
}

TEST(GradientBuckets, RanksThatDisagreeAreToldApartInDebugMode) {
  const auto text = error_text([] {
    on_mesh({2}, [](const DeviceMesh& mesh) {
      const auto parameters = distributed_parameters(2, mesh);
      const auto other = distribute_tensor(at::ones({kSide * kSide}, at::kDouble), mesh, {Replicate()});
      const auto leaf = mesh.coordinate()[0] == 0 ? parameters[0] : other.set_requires_grad(true);
      const auto loss = leaf.clone();
      const auto gradient = from_local(at::ones(leaf.sizes(), at::kDouble), mesh, {Partial()});
      const DebugScope debug;
      loss.backward(gradient);
    });
  });
  expect_contains(text, "all ranks must call the same operators in the same way");
}

struct Recorder : torch::autograd::PostAccumulateGradHook {
  explicit Recorder(std::vector<SpecPtr>* specs) : seen(specs) {}
  void operator()(const at::Tensor& tensor) override {
    seen->push_back(spec_of(tensor.grad()));
  }
  std::vector<SpecPtr>* seen;
};

TEST(GradientBuckets, AHookBehindTheAccumulationIsCalledOnceAndFindsTheGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    std::vector<SpecPtr> seen;
    torch::autograd::impl::set_post_acc_grad_hooks(parameters[1], std::make_unique<Recorder>(&seen));
    loss_of(parameters, batch_on(mesh)).backward();
    EXPECT_EQ(seen, std::vector<SpecPtr>{spec_of(parameters[1])});
    expect_gradients(parameters);
  });
}

TEST(GradientBuckets, AHookOfALeafIsCalledOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    std::vector<Layout> before;
    loss_of(parameters, batch_on(mesh)).backward();
    parameters[1].grad().zero_();
    parameters[1].register_hook([&](const at::Tensor& gradient) {
      before.push_back(spec_of(gradient)->layout());
      return gradient * 3;
    });
    const CommLog log(mesh);
    loss_of(parameters, batch_on(mesh)).backward();
    EXPECT_EQ(before, std::vector<Layout>{{Partial()}});
    EXPECT_EQ(gradient_rows(log).at(0).calls, 1) << log.to_string();
    expect_equal(full_tensor(parameters[1].grad()), expected_gradients(3)[1] * 3);
    expect_equal(full_tensor(parameters[0].grad()), expected_gradients(3)[0] * 2);
  });
}

struct AfterNode : torch::autograd::FunctionPostHook {
  explicit AfterNode(std::function<void()> fn) : run(std::move(fn)) {}
  variable_list operator()(const variable_list& outputs, const variable_list& /*inputs*/) override {
    run();
    return outputs;
  }
  std::function<void()> run;
};

TEST(GradientBuckets, AHookBehindTheAccumulatingNodeFindsTheGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameters = distributed_parameters(3, mesh);
    const auto loss = loss_of(parameters, batch_on(mesh));
    bool found = false;
    torch::autograd::impl::grad_accumulator(parameters[1])->add_post_hook(std::make_unique<AfterNode>([&] {
      found = parameters[1].grad().defined();
    }));
    loss.backward();
    EXPECT_TRUE(found);
    expect_gradients(parameters);
  });
}

TEST(GradientBuckets, ALeafThatIsGivenOtherDataGetsGradientsInTheLayoutOfThatData) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto weight = distributed_parameters(1, mesh, Layout{Shard(0)})[0];
    at::linear(batch_on(mesh), weight).sum().backward();
    weight.mutable_grad().reset();
    weight.set_data(distribute_tensor(global_parameters(1)[0], mesh, {Replicate()}));
    at::linear(batch_on(mesh), weight).sum().backward();
    EXPECT_EQ(spec_of(weight.grad()), spec_of(weight));
  });
}

} // namespace gradient_buckets_test

} // namespace weft
