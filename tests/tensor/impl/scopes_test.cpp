#include "weft/tensor/impl/scopes.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/nn/loss_parallel.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <thread>

namespace weft {

namespace scopes_test {
using namespace weft::testing;

TEST(DebugScope, HoldsWhileItLasts) {
  EXPECT_FALSE(debug_enabled());
  {
    const DebugScope debug;
    EXPECT_TRUE(debug_enabled());
    {
      const DebugScope off(false);
      EXPECT_FALSE(debug_enabled());
    }
    EXPECT_TRUE(debug_enabled());
  }
  EXPECT_FALSE(debug_enabled());
}

TEST(DebugScope, IsOfItsThreadAlone) {
  const DebugScope debug;
  bool elsewhere = true;
  std::thread([&] { elsewhere = debug_enabled(); }).join();
  EXPECT_FALSE(elsewhere);
}

/// Runs a function on another thread with this thread's at::ThreadLocalState, as autograd does for CUDA devices.
void elsewhere(const std::function<void()>& fn) {
  const auto carried = at::wrapPropagateTLSState(fn);
  std::thread(carried).join();
}

TEST(Scopes, FollowWorkToAnotherThread) {
  const Scopes none = Scopes::of_thread();
  Scopes there;
  {
    const StrictScope strict;
    const ReplicatePlainScope replicate;
    const DebugScope debug;
    const OverlapScope overlap(OverlapMode::Off);
    const nn::LossParallel loss_parallel;
    const ExplainLog log;
    elsewhere([&] { there = Scopes::of_thread(); });
    EXPECT_EQ(there, Scopes::of_thread());
    EXPECT_TRUE(there.strict && there.replicate_plain && there.debug && there.loss_parallel && there.explain);
    EXPECT_EQ(there.overlap, OverlapMode::Off);
  }
  elsewhere([&] { there = Scopes::of_thread(); });
  EXPECT_EQ(there, none);
}

TEST(Scopes, AThreadThatServesSeveralHasTheScopesOfEach) {
  const auto plain = at::wrapPropagateTLSState([] { return Scopes::of_thread().strict; });
  const StrictScope strict;
  const auto strictly = at::wrapPropagateTLSState([] { return Scopes::of_thread().strict; });
  std::thread([&] {
    EXPECT_FALSE(Scopes::of_thread().strict);
    EXPECT_TRUE(strictly());
    EXPECT_FALSE(plain());
    EXPECT_TRUE(strictly());
    EXPECT_FALSE(Scopes::of_thread().strict);
    const DebugScope own;
    EXPECT_TRUE(strictly());
    EXPECT_TRUE(debug_enabled());
  }).join();
}

TEST(Scopes, OneThatIsOverLivesOnWhereItWasTaken) {
  std::function<bool()> later;
  {
    const StrictScope strict;
    const ExplainLog log;
    later = at::wrapPropagateTLSState([] {
      Scopes::of_thread().explain->add(std::make_shared<Explanation>());
      return Scopes::of_thread().strict;
    });
  }
  EXPECT_FALSE(Scopes::of_thread().strict);
  EXPECT_TRUE(later());
  EXPECT_FALSE(Scopes::of_thread().strict);
}

TEST(Scopes, OperatorsOnAnotherThreadHeedThem) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto y = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(1)});
    x.mul(y); // is in the cache of this thread without a scope
    elsewhere([&] {
      x.mul(y);
      x.neg();
    });
    ExplainLog log;
    elsewhere([&] { x.neg(); });
    ASSERT_EQ(log.calls().size(), 1U);
    EXPECT_EQ(log.calls()[0]->op, "aten::neg");
    const StrictScope strict;
    elsewhere([&] { EXPECT_THROW(x.mul(y), c10::ValueError); });
  });
}

TEST(Scopes, HoldForReentrantBackward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    struct Again : torch::autograd::Function<Again> {
      static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x) {
        return x.clone();
      }
      static torch::autograd::variable_list backward(
          torch::autograd::AutogradContext* /*context*/,
          const torch::autograd::variable_list& gradients) {
        const at::AutoGradMode with_gradients(true);
        const auto inner = gradients[0].detach().set_requires_grad(true);
        inner.neg().sum().backward();
        return {inner.grad()};
      }
    };
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto loss = Again::apply(x).sum();
    const ExplainLog log;
    loss.backward();
    EXPECT_TRUE(
        std::any_of(log.calls().begin(), log.calls().end(), [](const auto& call) { return call->op == "aten::neg"; }));
  });
}

#ifdef WEFT_TEST_CUDA
TEST(Scopes, HoldForBackwardOnAThreadOfCuda) {
  // One rank, which is this process: autograd runs backward on the thread of the device.
  const auto mesh = init_device_mesh("cuda", {1}, {"a"});
  const auto x = distribute_tensor(whole_numbers({4, 2}).cuda(), mesh, {Shard(0)}).set_requires_grad(true);
  const auto caller = std::this_thread::get_id();
  auto backward_thread = caller;
  Scopes there;
  const auto loss = x.neg().sum();
  x.register_hook([&](const at::Tensor& gradient) {
    backward_thread = std::this_thread::get_id();
    there = Scopes::of_thread();
    return gradient;
  });
  const OverlapScope overlap(OverlapMode::Off);
  const StrictScope strict;
  ExplainLog log;
  loss.backward();
  EXPECT_NE(backward_thread, caller);
  EXPECT_EQ(there, Scopes::of_thread());
  EXPECT_TRUE(
      std::any_of(log.calls().begin(), log.calls().end(), [](const auto& call) { return call->op == "aten::neg"; }));
}
#endif

TEST(StrictScope, WhatNeedsNoCommunicationRuns) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    at::Tensor result;
    {
      const StrictScope strict;
      result = (x * 2 + x).sum();
    }
    expect_equal(full_tensor(result), (global * 3).sum());
  });
}

TEST(StrictScope, WhatWouldCommunicateRaisesWithThePlan) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto y = distribute_tensor(global, mesh, {Shard(1)});
    const auto moves = [&] { x.mul(y); };
    {
      const StrictScope strict;
      const auto text = error_text<c10::ValueError>(moves);
      expect_contains(
          text,
          "[aten::mul.Tensor] would communicate, which the strict scope forbids:\n"
          "aten::mul.Tensor(f32[4,2] @ mesh(a=2) {S(0)}, f32[4,2] @ mesh(a=2) {S(1)}): ");
      expect_contains(text, ": all_to_all(a: S(");
      expect_contains(text, "\n  8 bytes\n");
      expect_contains(text, "\nRedistribute the inputs first, or leave the scope.");
      EXPECT_EQ(error_text<c10::ValueError>(moves), text) << "the second such call is found in the cache";
      {
        const StrictScope off(false);
        moves();
      }
      expect_contains(error_text<c10::ValueError>(moves), "would communicate");
    }
    expect_equal(full_tensor(x.mul(y)), global * global);
  });
}

TEST(StrictScope, WhatIsAskedForByNameIsAllowed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const StrictScope strict;
    expect_equal(to_local(redistribute(x, {Replicate()})), global);
    expect_equal(full_tensor(x), global);
  });
}

TEST(StrictScope, WhatIsMadeOfOtherOperatorsRaisesToo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const StrictScope strict;
    expect_contains(error_text<c10::ValueError>([&] { at::linalg_vector_norm(x); }), "would communicate");
    expect_contains(error_text<c10::ValueError>([&] { at::_foreach_norm({x}); }), "would communicate");
    expect_contains(error_text<c10::ValueError>([&] { at::equal(x, x); }), "would communicate");
  });
}

TEST(ReplicatePlainScope, PlainTensorsCountAsReplicated) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    {
      const ReplicatePlainScope replicate;
      const auto sum = x + global;
      EXPECT_EQ(spec_of(sum)->layout(), Layout{Shard(0)});
      expect_equal(full_tensor(sum), global + global);
      expect_equal(full_tensor(at::cat({global, x})), at::cat({global, global}));
      expect_equal(
          full_tensor(x.index({at::tensor({3, 0}, at::kLong)})), global.index({at::tensor({3, 0}, at::kLong)}));
    }
    expect_contains(error_text<c10::ValueError>([&] { x.add(global); }), "cannot be mixed");
  });
}

} // namespace scopes_test

} // namespace weft
