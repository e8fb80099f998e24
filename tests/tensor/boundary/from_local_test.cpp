#include "weft/tensor/boundary/from_local.h"
#include "tests/support/error_text.h"
#include "tests/support/finite_differences.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace from_local_test {
using namespace weft::testing;

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), Partial()};

TEST(FromLocal, MakesADistributedTensorOfTheLocalTensors) {
  const auto global = whole_numbers({5, 3});
  on_all_layouts(2, all_placements(2), [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto local = part_of(global, mesh, layout);
    const auto tensor = from_local(local, mesh, layout, global.sizes());
    EXPECT_EQ(spec_of(tensor), TensorSpec::make(mesh, layout, {5, 3}, at::kFloat));
    EXPECT_FALSE(tensor.requires_grad());
    expect_equal(to_local(tensor), local);
    expect_equal(full_tensor(tensor), global);
  });
}

TEST(FromLocal, WithoutAShapeLocalTensorsHaveTheSameSize) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto local = at::ones({3, 5});
    EXPECT_EQ(from_local(local, mesh, {Shard(0), Shard(-1)}).sizes(), c10::IntArrayRef({6, 10}));
    EXPECT_EQ(from_local(local, mesh, {Shard(0), Shard(-2)}).sizes(), c10::IntArrayRef({12, 5}));
    EXPECT_EQ(from_local(local, mesh, {Partial(), Replicate()}).sizes(), c10::IntArrayRef({3, 5}));
  });
}

TEST(FromLocal, TheLengthsOfARaggedShardSayWhatItsMeshDimDivides) {
  const auto global = whole_numbers({8, 6});
  for (const auto& layout :
       {Layout({RaggedShard(0, {3, 5}), Shard(1)}), Layout({RaggedShard(0, {4, 4}), Shard(0)}),
        Layout({Shard(0), RaggedShard(0, {1, 3})}), Layout({RaggedShard(0, {2, 6}), RaggedShard(0, {0, 6})}),
        Layout({RaggedShard(0, {1, 3}), Shard(0)}, {1, 0}), Layout({RaggedShard(1, {6, 0}), RaggedShard(0, {8, 0})})}) {
    SCOPED_TRACE(layout.to_string());
    on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
      const auto local = part_of(global, mesh, layout);
      for (const bool run_check : {false, true}) {
        const auto tensor = from_local(local, mesh, layout, {.run_check = run_check});
        expect_equal(full_tensor(tensor), global);
      }
      EXPECT_THROW(
          from_local(at::cat({local, local, at::ones({1, local.size(1)})}), mesh, layout, {.run_check = true}),
          c10::ValueError);
    });
  }
}

TEST(FromLocal, SharesTheMemoryOfAContiguousLocalTensor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto local = at::zeros({2, 3});
    const auto tensor = from_local(local, mesh, {Shard(0)});
    EXPECT_TRUE(to_local(tensor).is_alias_of(local));
    local.fill_(7);
    expect_equal(to_local(tensor), at::full({2, 3}, 7.0F));
  });
}

TEST(FromLocal, KeepsTheOrderOfDimsInMemory) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto local = whole_numbers({3, 2}).t();
    const auto tensor = from_local(local, mesh, {Shard(0)});
    EXPECT_EQ(tensor.strides(), c10::IntArrayRef({1, 4}));
    EXPECT_TRUE(to_local(tensor).is_alias_of(local));
    EXPECT_EQ(to_local(tensor).strides(), local.strides());
    expect_equal(to_local(tensor), local);
  });
}

TEST(FromLocal, ALocalTensorWithGapsOrSharedElementsIsCopied) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto& local : {whole_numbers({4, 6}).slice(1, 1, 5, 2), at::ones({1, 2}).expand({4, 2})}) {
      const auto tensor = from_local(local, mesh, {Shard(0)});
      EXPECT_EQ(tensor.strides(), c10::IntArrayRef({2, 1}));
      EXPECT_FALSE(to_local(tensor).is_alias_of(local));
      expect_equal(to_local(tensor), local);
    }
  });
}

TEST(FromLocal, ALocalTensorGetsStridesInTheOrderOfThoseGiven) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const FromLocalOptions options{.shape = {{5, 3}}, .stride = {{1, 5}}};
    const auto global = whole_numbers({3, 5}).t();
    const auto local = part_of(global, mesh, {Shard(0)});
    const auto rows = local.size(0);
    for (const auto& given : {local.contiguous(), local.t().contiguous().t()}) {
      const auto tensor = from_local(given, mesh, {Shard(0)}, options);
      EXPECT_EQ(tensor.strides(), c10::IntArrayRef({1, 5}));
      EXPECT_EQ(to_local(tensor).strides(), c10::IntArrayRef({1, rows}));
      EXPECT_EQ(to_local(tensor).is_alias_of(given), given.strides() == c10::IntArrayRef({1, rows}));
      expect_equal(to_local(tensor), local);
    }
  });
}

TEST(FromLocal, TheStridesOfATensorWithoutElementsDoNotCount) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const FromLocalOptions options{.shape = {{5, 0, 1}}, .stride = {{0, 1, 0}}};
    const auto tensor = from_local(at::zeros({5, 0, 1}), mesh, {Replicate()}, options);
    EXPECT_EQ(tensor.sizes(), c10::IntArrayRef({5, 0, 1}));
    EXPECT_EQ(full_tensor(tensor + 1).sizes(), c10::IntArrayRef({5, 0, 1}));
  });
}

TEST(FromLocal, AZeroDimTensorIsReplicatedOrPartial) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto value = at::scalar_tensor(3.0);
    EXPECT_EQ(from_local(value, mesh, {Replicate()}).dim(), 0);
    EXPECT_EQ(full_tensor(from_local(value, mesh, {Partial()})).item<float>(), 6);
    EXPECT_EQ(
        error_text<c10::IndexError>([&] { from_local(value, mesh, {Shard(0)}); }),
        "[Placement] the dim of S(0) must be in [0, 0) for a tensor of 0 dims, but got 0. A 0-dim tensor can only be R "
        "or P.");
  });
}

TEST(FromLocal, WithoutDataShapesWorkAlone) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto meta_mesh = init_device_mesh("meta", {2}, {"a"});
    const auto on_meta = at::empty({2, 3}, at::device(at::kMeta));
    for (const auto& [local, on] :
         {std::pair(on_meta, mesh), std::pair(on_meta, meta_mesh), std::pair(at::ones({2, 3}), meta_mesh)}) {
      const auto tensor = from_local(local, on, {Shard(0)}, {.run_check = true});
      EXPECT_TRUE(tensor.is_meta());
      EXPECT_EQ(tensor.sizes(), c10::IntArrayRef({4, 3}));
      EXPECT_EQ(full_tensor(tensor).sizes(), c10::IntArrayRef({4, 3}));
    }
  });
}

TEST(FromLocal, OutsideTheMeshTheLocalTensorIsEmpty) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {1}, {"a"});
    const auto tensor = from_local(at::ones({2, 3}).set_requires_grad(true), mesh, {Shard(0)}, {.run_check = true});
    EXPECT_EQ(tensor.sizes(), c10::IntArrayRef({2, 3}));
    EXPECT_TRUE(tensor.requires_grad());
    EXPECT_EQ(to_local(tensor.detach()).sizes(), rank == 0 ? c10::IntArrayRef({2, 3}) : c10::IntArrayRef({0}));
  });
}

TEST(FromLocal, ArgumentsThatDoNotFitAreAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto local = at::ones({5, 2});
    const auto rank = mesh.rank(0);
    const auto text = [&](const Layout& layout, const FromLocalOptions& options = {}) {
      return error_text<c10::ValueError>([&] { from_local(local, mesh, layout, options); });
    };
    EXPECT_EQ(
        text({Shard(0)}, {.shape = {{7, 2}}, .stride = {{2, 1}}}),
        c10::str(
            "[from_local] rank ", rank, " must give a local tensor of shape [", rank == 0 ? 4 : 3,
            ", 2] of f32[7,2] @ mesh(a=2) {S(0)}, but got [5, 2]. Give the global shape and stride where the "
            "local tensors differ in size."));
    EXPECT_EQ(
        text({StridedShard(0, 2)}),
        c10::str(
            "[from_local] rank ", rank, " must give a local tensor of shape [", rank == 0 ? 6 : 4,
            ", 2] of f32[10,2] @ mesh(a=2) {SS(0,2)}, but got [5, 2]. Give the global shape and stride where the "
            "local tensors differ in size."));
    EXPECT_EQ(
        text({Shard(0)}, {.shape = {{10, 2}}}),
        "[from_local] shape and stride must be given together, but got the shape [10, 2] alone. Give both where the "
        "local tensors differ in size, and none where they do not.");
    EXPECT_EQ(
        text({Shard(0)}, {.stride = {{2, 1}}}),
        "[from_local] shape and stride must be given together, but got the stride [2, 1] alone. Give both where the "
        "local tensors differ in size, and none where they do not.");
    EXPECT_EQ(
        text({Shard(0)}, {.shape = {{10}}, .stride = {{1}}}),
        "[from_local] shape and stride must have the 2 dims of the local tensor, but got shape [10] and stride [1].");
    EXPECT_EQ(
        text({Shard(0)}, {.shape = {{10, 2}}, .stride = {{4, 1}}}),
        "[from_local] stride must be that of a tensor without gaps and overlaps, but got [4, 1] for the shape [10, 2]. "
        "Give the strides of the contiguous tensor, or of a permutation of it.");
    EXPECT_EQ(
        text({Shard(0), Replicate()}),
        "[from_local] one placement per mesh dim is required, but got 2 placements {S(0), R} for mesh(a=2). Use R for "
        "a "
        "mesh dim that does not shard the tensor.");
    EXPECT_EQ(
        text({Shard(0)}, {.grad_placements = Layout{Replicate()}}),
        "[from_local] grad_placements must shard the gradient as the tensor is sharded, but got {R} for f32[10,2] @ "
        "mesh(a=2) "
        "{S(0)}. Redistribute the tensor first if its gradient needs other shards.");
    expect_contains(
        error_text<c10::IndexError>([&] { from_local(local, mesh, {Shard(2)}); }),
        "[Placement] the dim of S(2) must be");
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { from_local(from_local(local, mesh, {Shard(0)}), mesh, {Shard(0)}); }),
        "[from_local] a plain tensor is required, but got a distributed one, f32[10,2] @ mesh(a=2) {S(0)}. Use "
        "redistribute to change its placements.");
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { from_local(at::Tensor(), mesh, {Shard(0)}); }),
        "[from_local] a plain tensor is required, but got an undefined one.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { from_local(local, DeviceMesh(), {Shard(0)}); }),
        "[from_local] a mesh is required, but got none. Make one with init_device_mesh.");
  });
}

TEST(FromLocal, ACheckComparesLocalTensorsOverTheMesh) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto rank = mesh.rank(0);
    const FromLocalOptions check{.run_check = true};
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { from_local(at::ones({4 - rank, 2}), mesh, {Shard(0)}, check); }),
        "[from_local] all ranks must give local tensors of one shape, unless the global shape is given, but rank 0 "
        "gave "
        "[4, 2] and rank 1 gave [3, 2]. Give the same shape and stride on all ranks where the local tensors differ in "
        "size.");
    EXPECT_EQ(
        error_text<c10::ValueError>(
            [&] { from_local(at::ones({2, 2}, rank == 0 ? at::kFloat : at::kDouble), mesh, {Shard(0)}, check); }),
        "[from_local] all ranks must give tensors of one dtype and number of dims, but rank 0 gave f32 of 2 dims and "
        "rank 1 gave f64 of 2 dims. Convert them first.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] {
          from_local(at::ones({3, 2}), mesh, {Shard(0)}, {.run_check = true, .shape = {{5, 2}}, .stride = {{2, 1}}});
        }),
        "[from_local] rank 1 must give a local tensor of shape [2, 2] of f32[5,2] @ mesh(a=2) {S(0)}, but got [3, 2]. "
        "Give the global shape and stride where the local tensors differ in size.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] {
          from_local(
              at::ones({3, 2}), mesh, {Shard(0)}, {.run_check = true, .shape = {{5 + rank, 2}}, .stride = {{2, 1}}});
        }),
        "[from_local] all ranks must give one global shape, but rank 0 gave [5, 2] and rank 1 gave [6, 2]. Give the "
        "same shape and stride on all ranks where the local tensors differ in size.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] {
          const auto square = at::ones({2, 2});
          from_local(rank == 0 ? square : square.t(), mesh, {Shard(0)}, check);
        }),
        "[from_local] all ranks must give tensors with their dims in one order in memory, but rank 0 gave one for the "
        "global strides [2, 1] and rank 1 one for [1, 4]. Give contiguous tensors.");
    EXPECT_EQ(
        error_text<c10::ValueError>(
            [&] { from_local(at::ones({2}).set_requires_grad(rank == 0), mesh, {Shard(0)}, check); }),
        "[from_local] all ranks must give tensors that require a gradient, or none, but those of ranks 0 and 1 differ "
        "in "
        "it. Detach them, or none.");
    const auto fine = from_local(
        at::ones({3 - rank, 2}), mesh, {Shard(0)}, {.run_check = true, .shape = {{5, 2}}, .stride = {{2, 1}}});
    expect_equal(full_tensor(fine), at::ones({5, 2}));
  });
}

TEST(FromLocal, ACheckTakesReplicatedValuesFromTheFirstRank) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto own = at::full({2}, static_cast<float>(mesh.world()->rank()));
    const auto values = [&](const Layout& layout) {
      return to_local(from_local(own, mesh, layout, {.run_check = true}))[0].item<float>();
    };
    EXPECT_EQ(values({Replicate(), Replicate()}), 0);
    EXPECT_EQ(values({Replicate(), Shard(0)}), static_cast<float>(mesh.rank(1)));
    EXPECT_EQ(values({Partial(), Replicate()}), static_cast<float>(2 * mesh.rank(0)));
    EXPECT_EQ(values({Shard(0), Shard(0)}), static_cast<float>(mesh.world()->rank()));
    EXPECT_EQ(own[0].item<float>(), static_cast<float>(mesh.world()->rank()));
  });
}

TEST(FromLocal, TheGradientIsTheLocalGradient) {
  const auto global = whole_numbers({5, 3});
  const auto weights = whole_numbers({5, 3}) * 2 + 1;
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto local = part_of(global, mesh, layout).clone().set_requires_grad(true);
    (full_tensor(from_local(local, mesh, layout, global.sizes())) * weights).sum().backward();
    EXPECT_FALSE(is_dtensor(local.grad()));
    expect_equal(local.grad(), part_of(weights, mesh, without_partial(layout)));
  });
}

TEST(FromLocal, TheGradientHasTheLayoutThatIsAskedFor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = at::ones({4}).set_requires_grad(true);
    const auto tensor = from_local(x, mesh, {Replicate()}, {.grad_placements = Layout{Partial()}});
    full_tensor(tensor).sum().backward();
    expect_equal(x.grad(), mesh.rank(0) == 0 ? at::ones({4}) : at::zeros({4}));
  });
}

TEST(FromLocal, TermsOfAnAverageGetTheGradientDividedByTheirNumber) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto x = at::ones({2}).set_requires_grad(true);
    full_tensor(from_local(x, mesh, {Partial(ReduceOp::Avg)})).mul(6).sum().backward();
    expect_equal(x.grad(), at::full({2}, 2.0F));
  });
}

TEST(FromLocal, TermsWithoutAKnownGradientMayNotRequireOne) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto op : {ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}) {
      const auto x = at::ones({2});
      EXPECT_TRUE(is_dtensor(from_local(x, mesh, {Partial(op)})));
      EXPECT_EQ(
          error_text<c10::NotImplementedError>([&] { from_local(x.set_requires_grad(true), mesh, {Partial(op)}); }),
          c10::str(
              "[from_local] gradients of P(sum) and P(avg) are known, but got f32[2] @ mesh(a=2) {P(", to_string(op),
              ")}. Detach the tensor, or reduce it to R with operators that have a gradient."));
      const c10::NoGradGuard no_grad;
      EXPECT_FALSE(from_local(x, mesh, {Partial(op)}).requires_grad());
    }
  });
}

TEST(FromLocal, DerivativesEqualFiniteDifferences) {
  const auto global = at::arange(6, at::kDouble).view({3, 2}).mul(0.3).sin();
  const std::vector<Placement> placements = {Replicate(), Shard(0), Shard(1), Partial(), Partial(ReduceOp::Avg)};
  on_all_layouts(2, placements, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto local = part_of(global, mesh, without_partial(layout));
    check_derivatives(
        [&](const at::Tensor& x) {
          return full_tensor(from_local(x, mesh, layout, global.sizes())).sin().pow(2).sum();
        },
        local, mesh, layout, Loss::SameOnAllRanks);
  });
}

TEST(FromLocal, GradientsOfTwoLocalTensorsDoNotShareMemory) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = at::ones({2}).set_requires_grad(true);
    const auto y = at::ones({2}).set_requires_grad(true);
    const auto loss = [&] { return to_local(from_local(x, mesh, {Shard(0)}) + from_local(y, mesh, {Shard(0)})).sum(); };
    loss().backward();
    EXPECT_FALSE(x.grad().is_alias_of(y.grad()));
    x.grad().fill_(5);
    expect_equal(y.grad(), at::ones({2}));
  });
}

TEST(FromLocal, AGradientThatIsNotDistributedIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = at::ones({2}).set_requires_grad(true);
    const auto tensor = from_local(x, mesh, {Replicate()});
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { torch::autograd::grad({tensor}, {x}, {at::ones({2})}); }),
        "[from_local] a distributed tensor is required, but got a plain one of shape [2]. Make one with from_local or "
        "distribute_tensor.");
  });
}

TEST(FromLocal, AutogradNoticesWritesToTheLocalTensor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto local = at::ones({2});
    const auto tensor = from_local(local, mesh, {Shard(0)});
    const auto before = tensor._version();
    local.add_(1);
    EXPECT_GT(tensor._version(), before);
  });
}

TEST(FromLocal, WorksInInferenceMode) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto outside = at::ones({2});
    const c10::InferenceMode inference;
    expect_equal(to_local(from_local(outside, mesh, {Shard(0)})), outside);
    expect_equal(full_tensor(from_local(at::ones({2}), mesh, {Shard(0)})), at::ones({4}));
  });
}

TEST(FromLocal, WithoutACheckNothingIsCommunicated) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const CommLog log(mesh);
    from_local(at::ones({2}).set_requires_grad(true), mesh, {Replicate(), Shard(0)});
    EXPECT_EQ(log.calls(), 0);
  });
}

TEST(FromLocal, InDebugModeReplicasThatDifferAreAnError) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const DebugScope debug;
    const auto by_b = at::full({2}, static_cast<float>(mesh.rank(1)));
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { from_local(by_b, mesh, {Shard(0), Replicate()}); }),
        "[from_local] ranks 0 and 1 must hold the same values, since f32[4] @ mesh(a=2,b=2) {S(0), R} says R on mesh "
        "dim "
        "b, but they differ. Give run_check to take those of the first rank, or the placements that the values have.");
    EXPECT_TRUE(is_dtensor(from_local(by_b, mesh, {Replicate(), Shard(0)})));
    EXPECT_TRUE(is_dtensor(from_local(by_b, mesh, {Shard(0), Replicate()}, {.run_check = true})));
  });
}

} // namespace from_local_test

} // namespace weft
