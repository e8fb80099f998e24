#include "weft/tensor/boundary/to_local.h"
#include "tests/support/error_text.h"
#include "tests/support/finite_differences.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace to_local_test {
using namespace weft::testing;

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), Partial()};

at::Tensor leaf_of(const at::Tensor& global, const DeviceMesh& mesh, const Layout& layout) {
  return from_local(part_of(global, mesh, layout), mesh, layout, global.sizes()).set_requires_grad(true);
}

TEST(ToLocal, ReturnsTheLocalTensor) {
  const auto global = whole_numbers({5, 3});
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto tensor = leaf_of(global, mesh, layout);
    expect_equal(to_local(tensor), part_of(global, mesh, layout));
    EXPECT_TRUE(to_local(tensor).requires_grad());
    const c10::NoGradGuard no_grad;
    expect_equal(to_local(tensor), part_of(global, mesh, layout));
    EXPECT_FALSE(to_local(tensor).requires_grad());
  });
}

TEST(ToLocal, APlainTensorIsAnError) {
  EXPECT_EQ(
      error_text<c10::TypeError>([&] { to_local(at::ones({4, 2})); }),
      "[to_local] a distributed tensor is required, but got a plain one of shape [4, 2]. Make one with from_local or "
      "distribute_tensor.");
  EXPECT_EQ(
      error_text<c10::TypeError>([&] { full_tensor(at::Tensor()); }),
      "[full_tensor] a distributed tensor is required, but got an undefined one. Make one with from_local or "
      "distribute_tensor.");
}

TEST(ToLocal, TheGradientHasTheTensorsLayoutAndIsReplicatedForAPartialOne) {
  const auto global = whole_numbers({5, 3});
  const auto weights = whole_numbers({5, 3}) * 2 + 1;
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto expected = without_partial(layout);
    const auto tensor = leaf_of(global, mesh, layout);
    const auto loss = (to_local(tensor) * part_of(weights, mesh, expected)).sum();
    const auto gradient = torch::autograd::grad({loss}, {tensor})[0];
    EXPECT_EQ(spec_of(gradient)->layout(), expected);
    expect_equal(full_tensor(gradient), weights);
  });
}

TEST(ToLocal, TheGradientHasThePlacementsItIsSaidToHave) {
  const auto global = whole_numbers({5, 3});
  const auto weights = whole_numbers({5, 3}) * 2 + 1;
  const std::vector<std::pair<Layout, Layout>> cases = {
      {{Replicate(), Replicate()}, {Partial(), Replicate()}},
      {{Replicate(), Shard(0)}, {Partial(), Shard(-2)}},
      {{Shard(1), Replicate()}, {Shard(1), Partial(ReduceOp::Avg)}},
      {{Partial(), Partial()}, {Partial(), Replicate()}}};
  for (const auto& [layout, gradient] : cases) {
    on_mesh({2, 2}, [&, &layout = layout, &gradient = gradient](const DeviceMesh& mesh) {
      const auto tensor = leaf_of(global, mesh, layout);
      (to_local(tensor, {.grad_placements = gradient}) * part_of(weights, mesh, gradient.normalized(2)))
          .sum()
          .backward();
      EXPECT_EQ(spec_of(tensor.grad())->layout(), gradient.normalized(2));
      expect_equal(full_tensor(tensor.grad()), weights);
    });
  }
}

TEST(ToLocal, GradPlacementsThatCannotBeAreAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2, 3}), mesh, {Shard(0)});
    const auto text = [&](const Layout& layout) {
      return error_text<c10::ValueError>([&] { to_local(tensor, {.grad_placements = layout}); });
    };
    EXPECT_EQ(
        text({Shard(0), Replicate()}),
        "[to_local] grad_placements must be one placement per mesh dim, but got 2 placements {S(0), R} for mesh(a=2).");
    EXPECT_EQ(
        text({Partial(ReduceOp::Max)}),
        "[to_local] grad_placements may be R, S, P(sum) and P(avg), but got {P(max)}. The gradients of the ranks are "
        "added up, so a gradient cannot have another reduction.");
    EXPECT_EQ(
        text({Shard(1)}),
        "[to_local] grad_placements must shard the gradient as the tensor is sharded, but got {S(1)} for f32[4,3] @ "
        "mesh(a=2) "
        "{S(0)}. Redistribute the tensor first if its gradient needs other shards.");
    expect_contains(
        error_text<c10::IndexError>([&] { to_local(tensor, {.grad_placements = Layout{Shard(2)}}); }), "[Placement]");
  });
}

TEST(ToLocal, GradPlacementsOfAMeshDimOfOneRankAreFree) {
  on_mesh({1, 2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2, 3}), mesh, {Shard(1), Shard(0)}).set_requires_grad(true);
    to_local(tensor, {.grad_placements = Layout{Replicate(), Shard(0)}}).sum().backward();
    expect_equal(full_tensor(tensor.grad()), at::ones({4, 3}));
  });
}

TEST(ToLocal, TheGradientOfATermOfAnAverageCountsForAllTerms) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto x = at::ones({2}).set_requires_grad(true);
    const auto tensor = from_local(x, mesh, {Partial(ReduceOp::Avg)});
    (to_local(tensor) * 2).sum().backward();
    expect_equal(x.grad(), at::full({2}, 2.0F));
  });
}

TEST(ToLocal, ATermWithoutAKnownGradientRaisesInBackward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Partial(ReduceOp::Max)}).set_requires_grad(true);
    const auto loss = to_local(tensor).sum();
    EXPECT_EQ(
        error_text<c10::NotImplementedError>([&] { loss.backward(); }),
        "[to_local] gradients of P(sum) and P(avg) are known, but got f32[2] @ mesh(a=2) {P(max)}. Detach the tensor, "
        "or "
        "reduce it to R with operators that have a gradient.");
  });
}

TEST(ToLocal, DerivativesEqualFiniteDifferences) {
  const auto global = at::arange(6, at::kDouble).view({3, 2}).mul(0.3).sin();
  const std::vector<Placement> placements = {Replicate(), Shard(0), Shard(1), Partial(), Partial(ReduceOp::Avg)};
  on_all_layouts(2, placements, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto own = part_of(global, mesh, without_partial(layout));
    const auto weights = at::arange(own.numel(), at::kDouble).view(own.sizes()) + 1;
    // Only linear functions of a term give a term of a function of the global tensor.
    check_derivatives(
        [&](const at::Tensor& x) {
          const auto local = to_local(from_local(x, mesh, layout, global.sizes()));
          return layout.has_partial() ? (local * weights).sum() : (local * weights).sin().sum();
        },
        own, mesh, layout, Loss::SumOverRanks);
  });
}

TEST(ToLocal, DerivativesOfGradientsThatAreTermsEqualFiniteDifferences) {
  const auto global = at::arange(6, at::kDouble).view({3, 2}).mul(0.3).sin();
  const auto run = [&](const DeviceMesh& mesh, const Layout& gradient) {
    // Every rank computes another function of the global tensor, so that each has a term of the gradient.
    const auto weights = global + static_cast<double>(mesh.world()->rank());
    check_derivatives(
        [&](const at::Tensor& x) {
          const auto tensor = from_local(x, mesh, {Shard(0)}, global.sizes());
          return (full_tensor(tensor, {.grad_placements = gradient}) * weights).sin().sum();
        },
        part_of(global, mesh, {Shard(0)}), mesh, {Shard(0)}, Loss::SumOverRanks);
  };
  on_mesh({2}, [&](const DeviceMesh& mesh) { run(mesh, {Partial()}); });
  on_mesh({3}, [&](const DeviceMesh& mesh) { run(mesh, {Partial()}); });
}

TEST(ToLocal, AutogradNoticesChangesThroughTheOther) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Shard(0)});
    const auto local = to_local(tensor);
    local.mul_(3);
    expect_equal(full_tensor(tensor), at::full({4}, 3.0F));
    EXPECT_EQ(tensor._version(), local._version());
    EXPECT_GT(tensor._version(), 0);
  });
}

TEST(ToLocal, ChangingALocalTensorThatRequiresAGradientInPlaceIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Shard(0)}).set_requires_grad(true);
    expect_contains(error_text([&] { to_local(tensor).mul_(3); }), "is a view and is being modified inplace");
  });
}

TEST(ToLocal, TheGradientDoesNotShareMemoryWithThatOfAPlainTensor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto plain = at::ones({2}).set_requires_grad(true);
    const auto loss = [&] { return (to_local(tensor) + plain).sum(); };
    loss().backward();
    plain.grad().fill_(5);
    expect_equal(full_tensor(tensor.grad()), at::ones({4}));
    loss().backward();
    expect_equal(full_tensor(tensor.grad()), at::full({4}, 2.0F));
    expect_equal(plain.grad(), at::full({2}, 6.0F));
  });
}

TEST(ToLocal, InDebugModeALostReductionIsAnError) {
  const auto run = [](const DeviceMesh& mesh, const Layout& layout, const ToLocalOptions& options) {
    const auto tensor = from_local(at::ones({2}), mesh, layout).set_requires_grad(true);
    (to_local(tensor, options) * static_cast<float>(mesh.rank(1) + 1)).sum().backward();
    return full_tensor(tensor.grad())[0].item<float>();
  };
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const DebugScope debug;
    for (const auto& layout : {Layout{Shard(0), Replicate()}, Layout{Shard(0), Partial()}}) {
      EXPECT_EQ(
          error_text<c10::ValueError>([&] { run(mesh, layout, {}); }),
          "[to_local] ranks 0 and 1 must have the same gradient, since it is taken to be {S(0), R}, but they differ "
          "along "
          "mesh dim b: a reduction would be lost. Give grad_placements {S(0), P(sum)} where each rank has a term of "
          "the "
          "gradient.");
    }
    EXPECT_EQ(run(mesh, {Shard(0), Replicate()}, {.grad_placements = Layout{Shard(0), Partial()}}), 3);
    EXPECT_EQ(run(mesh, {Replicate(), Shard(0)}, {}), 1);
  });
}

TEST(ToLocal, TheModeOfTheForwardPassHoldsInBackward) {
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Replicate()}).set_requires_grad(true);
    const auto loss = [&] { return (to_local(tensor) * static_cast<float>(mesh.rank(0))).sum(); };
    at::Tensor debugged;
    {
      const DebugScope debug;
      debugged = loss();
    }
    expect_contains(error_text<c10::ValueError>([&] { debugged.backward(); }), "a reduction would be lost");
    loss().backward();
  });
}

TEST(FullTensor, IsTheGlobalTensorOnEveryRank) {
  const auto global = whole_numbers({5, 3});
  on_all_layouts(2, all_placements(2), [&](const DeviceMesh& mesh, const Layout& layout) {
    expect_equal(full_tensor(from_local(part_of(global, mesh, layout), mesh, layout, global.sizes())), global);
  });
}

TEST(FullTensor, ItsGradientHasThePlacementsItIsSaidToHave) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = distribute_tensor(at::ones({4}).set_requires_grad(true), mesh, {Shard(0)});
    const auto scale = static_cast<float>(mesh.rank(0) + 1);
    (full_tensor(tensor, {.grad_placements = Layout{Partial()}}) * scale).sum().backward();
    EXPECT_EQ(spec_of(tensor.grad())->layout(), Layout{Shard(0)});
    expect_equal(full_tensor(tensor.grad()), at::full({4}, 3.0F));
  });
}

} // namespace to_local_test

} // namespace weft
