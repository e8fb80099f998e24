#include "weft/fully_sharded/schedule.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

namespace weft {

namespace schedule_test {
using namespace weft::testing;

constexpr int kLayers = 4;

/// Linear layers that run one after the other, and what is gathered when each begins to compute.
struct Model {
  std::vector<std::vector<at::Tensor>> parameters{kLayers};
  std::vector<std::shared_ptr<Unit>> units;
  std::vector<int> order{0, 1, 2, 3};    // in which they run
  std::vector<int64_t> calls;            // made when a layer had what it needs
  std::vector<int64_t> gathered_forward; // the number of units, when each layer computes
  std::vector<int64_t> gathered_backward;

  explicit Model(const DeviceMesh& mesh, std::optional<std::string> replicate_dim = std::nullopt) : mesh_(mesh) {
    const auto schedule = std::make_shared<Schedule>();
    for (int i = 0; i < kLayers; ++i) {
      const auto leaf = shard_parameters({whole_numbers({6, 6}) / 64}, mesh, mesh.name(0))[0].requires_grad_();
      parameters[i] = {leaf};
      units.push_back(std::make_shared<Unit>(
          std::vector<at::Tensor>{leaf}, UnitOptions{.mesh_dim = mesh.name(0), .replicate_dim = replicate_dim},
          [this, i](c10::ArrayRef<at::Tensor> put) { parameters[i] = put.vec(); }));
      units.back()->join(schedule);
    }
  }
  void step() {
    const CommLog log(mesh_);
    forward(&log).sum().backward();
    calls.push_back(log.calls());
  }

  at::Tensor forward(const CommLog* log = nullptr) {
    auto x = at::ones({2, 6});
    for (const int i : order) {
      units[i]->enter(false);
      calls.push_back(log == nullptr ? 0 : log->calls());
      gathered_forward.push_back(count_gathered());
      x = at::relu(at::linear(x, parameters[i][0]));
      units[i]->leave({x});
      x.grad_fn()->add_pre_hook(std::make_unique<Counter>(*this));
    }
    return x;
  }

  int64_t count_gathered() const {
    return std::count_if(units.begin(), units.end(), [](const auto& unit) { return unit->is_gathered(); });
  }

 private:
  struct Counter : torch::autograd::FunctionPreHook {
    explicit Counter(Model& counted) : model(counted) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
      model.gathered_backward.push_back(model.count_gathered());
      return gradients;
    }
    Model& model;
  };

  DeviceMesh mesh_;
};

TEST(Schedule, TheNextGatherStartsBeforeALayerComputesFromTheSecondStepOn) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    model.step();
    EXPECT_EQ(model.calls, (std::vector<int64_t>{1, 2, 3, 4, 4 + 4 + 4}));
    model.calls.clear();
    model.step();
    EXPECT_EQ(model.calls, (std::vector<int64_t>{2, 3, 4, 4, 4 + 4 + 4}));
  });
}

TEST(Schedule, TheLastUnitOfForwardStaysForItsBackwardWhileTheNextOneIsGathered) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    for (int step = 0; step < 3; ++step) {
      model.calls.clear();
      model.step();
    }
    EXPECT_EQ(model.calls, (std::vector<int64_t>{2, 3, 4, 4 + 1, 4 + 3 + 4}));
  });
}

TEST(Schedule, AForwardWithoutBackwardIsFollowedByOneThatGathersAllUnits) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    for (int step = 0; step < 3; ++step) {
      model.step();
    }
    model.forward();
    EXPECT_EQ(model.count_gathered(), 2); // for the backward that does not come
    {
      const at::NoGradGuard no_graph;
      if (mesh.rank(0) == 0) {
        model.parameters[3][0].mul_(1); // one rank alone would gather it anew
      }
    }
    model.calls.clear();
    model.step();
    EXPECT_EQ(model.calls, (std::vector<int64_t>{2, 3, 4, 4, 4 + 4 + 4}));
    EXPECT_EQ(model.count_gathered(), 0);
    model.step(); // learns again
    model.calls.clear();
    model.step();
    EXPECT_EQ(model.calls.back(), 4 + 3 + 4);
  });
}

TEST(Schedule, AUnitThatIsLeftOutOfAStepIsFreedThoughItWasExpectedInBackward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    for (const auto& order :
         {std::vector<int>{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 3}, {0, 1, 3}, {0, 1, 3}, {0, 3}, {0, 3}}) {
      model.order = order;
      model.step();
      EXPECT_EQ(model.count_gathered(), 0);
    }
  });
}

TEST(Schedule, ABackwardOfSomethingElseFreesNothingThatAStepDoesNot) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    for (int step = 0; step < 3; ++step) {
      model.step();
    }
    {
      const auto output = model.forward();
      at::ones({2}).requires_grad_().sum().backward(); // of nothing that is sharded
    }
    model.step();
    EXPECT_EQ(model.count_gathered(), 0);
  });
}

TEST(Schedule, AUnitThatIsUsedTwiceIsGatheredForEachUseAndNoMore) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    model.order = {0, 1, 0, 2};
    for (int step = 0; step < 3; ++step) {
      model.calls.clear();
      model.step();
      const bool knows_what_is_next = step > 0;
      EXPECT_EQ(model.calls.front(), knows_what_is_next ? 2 : 1);
      EXPECT_EQ(model.calls.back(), 4 + 4 + 4); // forward, backward, and to reduce
      EXPECT_EQ(model.count_gathered(), 0);
    }
  });
}

TEST(Schedule, AForwardAloneIsAPassToo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    const at::NoGradGuard no_graph;
    const auto x = at::ones({2, 6});
    for (int pass = 0; pass < 3; ++pass) {
      const CommLog log(mesh);
      for (int i = 0; i < kLayers; ++i) {
        model.units[i]->enter(false);
        EXPECT_EQ(log.calls(), i + (pass > 0 && i + 1 < kLayers ? 2 : 1));
        model.units[i]->leave({x});
      }
      EXPECT_EQ(model.count_gathered(), 0);
    }
  });
}

TEST(Schedule, AtMostTwoUnitsAreGatheredAtAnyLayer) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    for (int step = 0; step < 3; ++step) {
      model.gathered_forward.clear();
      model.gathered_backward.clear();
      model.step();
      // The first step does not know what comes next.
      const auto of_layers = [&](int64_t first, int64_t between, int64_t last) {
        return std::vector<int64_t>{first, between, between, last};
      };
      // The third one knows the order of backward, too.
      const auto last_in_forward = step == 2 ? 2 : 1;
      EXPECT_EQ(model.gathered_forward, step == 0 ? of_layers(1, 1, 1) : of_layers(2, 2, last_in_forward));
      EXPECT_EQ(model.gathered_backward, step == 0 ? of_layers(1, 1, 1) : of_layers(2, 2, 1));
    }
  });
}

TEST(Schedule, NothingStaysGatheredAfterAStep) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    for (int i = 0; i < 3; ++i) {
      model.step();
      for (const auto& unit : model.units) {
        EXPECT_FALSE(unit->is_gathered());
      }
    }
  });
}

TEST(Schedule, GathersThatWereGivenAreStartedInTheirPlace) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    model.units[0]->set_forward_prefetch({model.units[1], model.units[2]});
    model.units[1]->set_forward_prefetch({});
    model.units[2]->set_forward_prefetch({model.units[3]});
    model.step();
    EXPECT_EQ(model.calls, (std::vector<int64_t>{3, 3, 4, 4, 4 + 4 + 4}));
  });
}

TEST(Schedule, UnitsThatAForwardDoesNotReachAreFreed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    const auto outer = std::make_shared<Unit>(
        shard_parameters({at::ones({6, 6})}, mesh, mesh.name(0)), UnitOptions{.mesh_dim = mesh.name(0)},
        [](c10::ArrayRef<at::Tensor>) {});
    for (const auto& unit : model.units) {
      outer->add_inner(*unit);
    }
    model.step();
    const auto x = at::ones({2, 6});
    const at::NoGradGuard no_graph;
    const auto schedule = std::make_shared<Schedule>();
    outer->join(schedule);
    for (const auto& unit : model.units) {
      unit->join(schedule);
    }
    for (const int layers : {kLayers, 2}) { // the second time it stops early
      outer->enter(false);
      for (int i = 0; i < layers; ++i) {
        model.units[i]->enter(false);
        model.units[i]->leave({x});
      }
      EXPECT_EQ(model.count_gathered(), layers == kLayers ? 0 : 1);
      outer->leave({x});
      EXPECT_EQ(model.count_gathered(), 0);
    }
  });
}

TEST(Schedule, AForwardThatFailsFreesTheUnitsWhoseGathersWereStarted) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Model model(mesh);
    model.step();
    model.units[0]->enter(false);
    EXPECT_EQ(model.count_gathered(), 2);
    model.units[0]->leave({}, /*has_failed=*/true);
    EXPECT_EQ(model.count_gathered(), 0);
    model.units[0]->enter(false);
    model.units[0]->unwind(0); // as after an interrupt
    EXPECT_EQ(model.units[0]->depth(), 0);
    EXPECT_EQ(model.count_gathered(), 0);
    EXPECT_TRUE(model.parameters[0][0].is_same(model.units[0]->leaves()[0]));
  });
}

TEST(Schedule, ARankThatIsGoneDuringAGatherLeavesNothingGathered) {
  std::string text;
  const auto program = [&](const DeviceMesh& mesh) {
    Model model(mesh);
    model.step();
    model.step();
    const auto memory = UnitMemory::of(mesh);
    auto x = at::ones({2, 6});
    for (int i = 0; i < kLayers; ++i) {
      TORCH_CHECK(mesh.rank(0) == 0 || i < 2, "this rank ends");
      try {
        model.units[i]->enter(false);
      } catch (const c10::Error& error) {
        text = error.what_without_backtrace();
        break;
      }
      x = at::linear(x, model.parameters[i][0]);
      model.units[i]->leave({x});
    }
    EXPECT_EQ(model.count_gathered(), 0);
    for (int i = 0; i < kLayers; ++i) {
      EXPECT_TRUE(model.parameters[i][0].is_same(model.units[i]->leaves()[0])) << "layer " << i;
      model.units[i]->reshard(); // does not raise that error again
    }
  };
  expect_contains(error_text([&] { on_mesh({2}, program); }), "this rank ends");
  expect_contains(text, "all_gather");
  expect_contains(text, "of unit ");
}

TEST(Schedule, AUnitThatIsComputedAnewWithoutABackwardIsFreedWithThePass) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const Model model(mesh);
    auto x = at::ones({2, 6}).requires_grad_();
    model.units[0]->enter(false);
    auto y = at::linear(x, model.parameters[0][0]);
    model.units[0]->leave({y});
    // A checkpoint ends its forward by an exception when it has what it needs.
    for (const bool ends_early : {false, true}) {
      y.register_hook([&, ends_early](const at::Tensor&) {
        model.units[2]->enter(false);
        model.units[2]->leave({}, ends_early);
        EXPECT_EQ(model.count_gathered(), 2) << "that and the one whose backward runs";
      });
    }
    y.sum().backward();
    EXPECT_EQ(model.count_gathered(), 0);
  });
}

TEST(Schedule, ABackwardThatFailsLeavesNothingGathered) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const Model model(mesh);
    auto x = at::ones({2, 6}).requires_grad_();
    x.register_hook([](const at::Tensor&) -> at::Tensor { TORCH_CHECK(false, "stop"); });
    auto y = x * 1;
    y.register_hook([](const at::Tensor&) -> at::Tensor { TORCH_CHECK(false, "stop"); });
    model.units[0]->enter(false);
    auto z = at::linear(y, model.parameters[0][0]);
    model.units[0]->leave({z});
    EXPECT_ANY_THROW(z.sum().backward());
    EXPECT_FALSE(model.units[0]->is_gathered());
  });
}

/// Sets what a pass leaves for a later one to reduce.
using SetSums = void (Unit::*)(bool);

/// A pass that uses the last unit and leaves its sums, and one that does not use it and reduces what is there.
void run_sums_of_an_absent_unit(const DeviceMesh& mesh, std::optional<std::string> replicate_dim, SetSums set) {
  Model model(mesh, std::move(replicate_dim));
  std::vector<at::Tensor> expected;
  for (int i = 0; i < kLayers; ++i) {
    expected.push_back((whole_numbers({6, 6}) / 64).requires_grad_());
  }
  for (const int layers : {kLayers, kLayers - 2}) {
    model.order.resize(layers);
    for (const auto& unit : model.units) {
      ((*unit).*set)(layers < kLayers);
    }
    model.step();
    auto x = at::ones({2, 6});
    for (int i = 0; i < layers; ++i) {
      x = at::relu(at::linear(x, expected[i]));
    }
    x.sum().backward();
  }
  for (int i = 0; i < kLayers; ++i) {
    const auto gradient = model.units[i]->leaves()[0].grad();
    ASSERT_TRUE(gradient.defined()) << "layer " << i;
    EXPECT_TRUE(at::allclose(full_tensor(gradient), expected[i].grad(), 1e-5, 1e-6)) << "layer " << i;
  }
  EXPECT_EQ(model.count_gathered(), 0);
}

TEST(Schedule, SumsOfAUnitThatTheSynchronisingPassDoesNotUseAreReducedAtItsEnd) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    run_sums_of_an_absent_unit(mesh, std::nullopt, &Unit::set_requires_gradient_sync);
  });
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    run_sums_of_an_absent_unit(mesh, mesh.name(1), &Unit::set_requires_gradient_sync);
    run_sums_of_an_absent_unit(mesh, mesh.name(1), &Unit::set_requires_all_reduce);
  });
}

} // namespace schedule_test
} // namespace weft
