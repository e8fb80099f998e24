#include "weft/tensor/boundary/redistribute.h"
#include "tests/support/error_text.h"
#include "tests/support/finite_differences.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace redistribute_test {
using namespace weft::testing;

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), Partial()};
const std::vector<Placement> kWholePlacements = {Replicate(), Shard(0), Shard(1)};

at::Tensor distributed(const at::Tensor& global, const DeviceMesh& mesh, const Layout& layout) {
  return from_local(part_of(global, mesh, layout), mesh, layout, global.sizes());
}

TEST(Redistribute, GivesTheValueAnotherLayout) {
  const auto global = whole_numbers({5, 3});
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& from) {
    for (const auto& to : all_layouts(mesh.ndim(), 2, kWholePlacements)) {
      const auto tensor = redistribute(distributed(global, mesh, from), to);
      EXPECT_EQ(spec_of(tensor), TensorSpec::make(mesh, to, {5, 3}, at::kFloat));
      expect_equal(to_local(tensor), part_of(global, mesh, to));
    }
  });
}

TEST(Redistribute, ALazyConjugateIsComputedBeforeTheCommunication) {
  const auto global = at::complex(whole_numbers({4, 2}), whole_numbers({4, 2}) + 1);
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& from) {
    const auto x = distributed(global, mesh, from);
    for (const auto& to : all_layouts(mesh.ndim(), 2, kWholePlacements)) {
      expect_equal(to_local(redistribute(x.conj(), to)), part_of(global.conj(), mesh, to));
      expect_equal(full_tensor(at::imag(redistribute(x, to).conj()) * 2), at::imag(global.conj()) * 2);
    }
  });
}

TEST(Redistribute, TheGradientHasTheLayoutOfTheSource) {
  const auto global = whole_numbers({5, 3});
  const auto weights = whole_numbers({5, 3}) * 2 + 1;
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& from) {
    for (const auto& to : all_layouts(mesh.ndim(), 2, kWholePlacements)) {
      const auto tensor = distributed(global, mesh, from).set_requires_grad(true);
      const auto loss = (to_local(redistribute(tensor, to)) * part_of(weights, mesh, to)).sum();
      const auto gradient = torch::autograd::grad({loss}, {tensor})[0];
      EXPECT_EQ(spec_of(gradient)->layout(), without_partial(from));
      expect_equal(full_tensor(gradient), weights);
    }
  });
}

TEST(Redistribute, DerivativesEqualFiniteDifferences) {
  const auto global = at::arange(6, at::kDouble).view({3, 2}).mul(0.3).sin();
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& from) {
    const auto local = part_of(global, mesh, without_partial(from));
    const auto targets = all_layouts(mesh.ndim(), 2, kWholePlacements);
    for (size_t i = 0; i < targets.size(); i += mesh.ndim() == 1 ? 1 : 3) {
      check_derivatives(
          [&](const at::Tensor& x) {
            const auto tensor = redistribute(from_local(x, mesh, from, global.sizes()), targets[i]);
            return full_tensor(tensor).sin().pow(2).sum();
          },
          local, mesh, from, Loss::SameOnAllRanks);
    }
  });
}

TEST(Redistribute, NegativeDimsCountFromTheEnd) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2, 3}), mesh, {Replicate()});
    EXPECT_EQ(spec_of(redistribute(tensor, {Shard(-1)}))->layout(), Layout{Shard(1)});
  });
}

TEST(Redistribute, WhereTheLayoutStaysMemoryAndStridesStay) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const FromLocalOptions options{.shape = {{4, 3}}, .stride = {{1, 4}}};
    const auto tensor = from_local(at::ones({2, 3}), mesh, {Shard(0)}, options);
    for (const bool requires_grad : {false, true}) {
      tensor.set_requires_grad(requires_grad);
      const auto same = redistribute(tensor, {Shard(0)});
      EXPECT_EQ(spec_of(same), spec_of(tensor));
      EXPECT_EQ(same.requires_grad(), requires_grad);
      EXPECT_TRUE(to_local(same).is_alias_of(to_local(tensor)));
      EXPECT_EQ(same._version(), tensor._version());
    }
    const auto moved = redistribute(tensor, {Replicate()});
    EXPECT_EQ(moved.strides(), c10::IntArrayRef({1, 4}));
    EXPECT_EQ(to_local(moved).strides(), c10::IntArrayRef({1, 4}));
    const auto cast = redistribute(tensor, {Shard(0)}, {.forward_dtype = at::kDouble});
    EXPECT_EQ(to_local(cast).strides(), c10::IntArrayRef({1, 2}));
  });
}

TEST(Redistribute, KeepsTheOrderOfDimsInMemoryBetweenAllLayouts) {
  on_all_layouts(3, kPlacements, [&](const DeviceMesh& mesh, const Layout& from) {
    const auto global = whole_numbers({3, 5, 4}).permute({2, 0, 1});
    const auto tensor = distribute_tensor(global, mesh, from);
    for (const auto& to : all_layouts(mesh.ndim(), 3, kPlacements)) {
      if (is_refused(from, to)) {
        continue;
      }
      for (const bool async_op : {false, true}) {
        const auto moved = redistribute(tensor, to, {.async_op = async_op});
        EXPECT_EQ(moved.strides(), global.strides());
        EXPECT_EQ(full_tensor(moved).strides(), global.strides());
        expect_equal(full_tensor(moved), global);
      }
    }
  });
}

TEST(Redistribute, TheResultOfATensorWithGapsIsContiguous) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)}).slice(1, 0, 6, 2);
    const auto moved = redistribute(tensor, {Replicate()});
    EXPECT_TRUE(moved.is_contiguous());
    expect_equal(to_local(moved), whole_numbers({4, 6}).slice(1, 0, 6, 2));
  });
}

TEST(Redistribute, ChangingWhatSharesMemoryInPlaceIsAnErrorWhereItRequiresAGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Shard(0)}).set_requires_grad(true);
    expect_contains(
        error_text([&] { redistribute(tensor, {Shard(0)}).mul_(2); }), "is a view and is being modified inplace");
  });
}

TEST(Redistribute, WhatChangesItsLayoutHasMemoryOfItsOwn) {
  on_all_layouts(1, {Replicate(), Shard(0), Partial()}, [&](const DeviceMesh& mesh, const Layout& from) {
    for (const auto& to : all_layouts(mesh.ndim(), 1, {Replicate(), Shard(0), Partial()})) {
      if (from == to || is_refused(from, to)) {
        continue;
      }
      const auto global = whole_numbers({8});
      const auto tensor = distributed(global, mesh, from);
      to_local(redistribute(tensor, to)).fill_(100);
      expect_equal(full_tensor(tensor), global);
    }
  });
}

/// Every change of layout on mesh dims of one rank, which leaves the local tensors as they are.
void on_dims_of_one_rank(
    const std::vector<Placement>& to_placements,
    const std::function<void(const DeviceMesh& mesh, const Layout& from, const Layout& to)>& fn) {
  for (const auto& placement : {Replicate(), Shard(0), Shard(1), Partial()}) {
    for (const auto& to : to_placements) {
      if (placement == to || is_refused({placement}, {to})) {
        continue;
      }
      SCOPED_TRACE(placement.to_string() + " -> " + to.to_string());
      on_mesh({1}, [&](const DeviceMesh& mesh) { fn(mesh, {placement}, {to}); });
      on_mesh({2, 1}, [&](const DeviceMesh& mesh) { fn(mesh, {Shard(0), placement}, {Shard(0), to}); });
      on_mesh({1, 2}, [&](const DeviceMesh& mesh) { fn(mesh, {placement, Shard(0)}, {to, Shard(0)}); });
    }
  }
}

TEST(Redistribute, OnMeshDimsOfOneRankTheMemoryAndStridesStay) {
  on_dims_of_one_rank(
      {Replicate(), Shard(0), Shard(1), Partial()}, [](const auto& mesh, const auto& from, const auto& to) {
        const auto global = whole_numbers({6, 3});
        const FromLocalOptions transposed{.shape = {{6, 3}}, .stride = {{1, 6}}};
        for (const auto& options : {with_global_shape({6, 3}), transposed}) {
          const auto tensor = from_local(part_of(global, mesh, from), mesh, from, options);
          const auto same = redistribute(tensor, to);
          EXPECT_EQ(spec_of(same), spec_of(tensor)->with(spec_of(same)->layout()));
          EXPECT_TRUE(as_dtensor(same)->local().is_alias_of(as_dtensor(tensor)->local()));
          EXPECT_EQ(same.strides(), tensor.strides());
          expect_equal(full_tensor(same), full_tensor(tensor));
          // A write through one is seen through the other, also by autograd.
          const auto version = tensor._version();
          same.mul_(2);
          EXPECT_GT(tensor._version(), version);
          expect_equal(full_tensor(tensor), full_tensor(same));
        }
      });
}

TEST(Redistribute, OnMeshDimsOfOneRankTheGradientHasTheLayoutOfTheSource) {
  on_dims_of_one_rank({Replicate(), Shard(0), Shard(1)}, [](const auto& mesh, const auto& from, const auto& to) {
    const auto global = whole_numbers({6, 3});
    const auto weights = whole_numbers({6, 3}) * 2 + 1;
    const auto tensor = distributed(global, mesh, from).set_requires_grad(true);
    const auto moved = redistribute(tensor, to);
    expect_contains(error_text([&] { moved.mul_(2); }), "is a view and is being modified inplace");
    (moved * distributed(weights, mesh, to)).sum().backward();
    EXPECT_EQ(spec_of(tensor.grad())->layout(), without_partial(from));
    expect_equal(full_tensor(tensor.grad()), weights);
  });
}

TEST(Redistribute, OnMeshDimsOfOneRankAChangeOfTheDtypeHasMemoryOfItsOwn) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Shard(0)});
    to_local(redistribute(tensor, {Replicate()}, {.forward_dtype = at::kDouble})).fill_(3);
    expect_equal(to_local(tensor), at::ones({2}));
  });
}

TEST(Redistribute, OnMeshDimsOfOneRankAShardCannotBecomeAPartialValueEither) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::ones({2}), mesh, {Shard(0)});
    expect_contains(
        error_text<c10::ValueError>([&] { redistribute(tensor, {Partial()}); }),
        "[plan] a shard cannot become a partial value");
  });
}

/// A view that had to be copied goes out of date when its base changes; what is made of it does not.
TEST(Redistribute, OnMeshDimsOfOneRankACopiedViewBecomesATensorOfItsOwn) {
  on_mesh({2, 1}, [](const DeviceMesh& mesh) {
    const auto base = distributed(whole_numbers({4, 2}), mesh, {Shard(0), Replicate()});
    const auto copied = base.slice(0, 1, 3);
    ASSERT_TRUE(as_dtensor(copied)->is_copy_of_base());
    const auto moved = redistribute(copied, spec_of(copied)->layout().with(1, Shard(1)));
    base.zero_();
    moved.add_(1);
    expect_equal(full_tensor(moved), whole_numbers({4, 2}).slice(0, 1, 3) + 1);
  });
}

/// Autograd accumulates into a gradient in place.
TEST(Redistribute, OnMeshDimsOfOneRankGradientsOfTwoLeavesShareNoMemory) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    const auto a = from_local(at::ones({2}), mesh, {Replicate()}).set_requires_grad(true);
    const auto b = from_local(at::ones({2}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto plain = at::ones({2}).set_requires_grad(true);
    const auto c = redistribute(from_local(plain, mesh, {Shard(0)}), {Replicate()});
    to_local(a + redistribute(b, {Replicate()}) + c).pow(2).sum().backward();
    to_local(a.grad()).fill_(0);
    to_local(b.grad()).add_(1);
    expect_equal(to_local(a.grad()), at::zeros({2}));
    expect_equal(to_local(b.grad()), at::full({2}, 7.0));
    expect_equal(plain.grad(), at::full({2}, 6.0));
  });
}

TEST(Redistribute, TheResultHasTheForwardDtype) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = from_local(at::full({2}, 1.0009765625F), mesh, {Partial()});
    const auto low = redistribute(tensor, {Replicate()}, {.forward_dtype = at::kBFloat16});
    EXPECT_EQ(low.scalar_type(), at::kBFloat16);
    // The terms are rounded before they are summed.
    expect_equal(to_local(low), at::full({2}, 2, at::kBFloat16));
    expect_equal(to_local(redistribute(tensor, {Replicate()})), at::full({2}, 2.001953125F));
  });
}

TEST(Redistribute, TheGradientIsCommunicatedInTheBackwardDtypeAndThenHasTheTensorsDtype) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto gradient_of = [&](const RedistributeOptions& options) {
      const auto tensor = from_local(at::ones({2}), mesh, {Shard(0)}).set_requires_grad(true);
      const auto moved = redistribute(tensor, {Replicate()}, options);
      (to_local(moved, {.grad_placements = Layout{Partial()}}) * 1.0009765625).sum().backward();
      EXPECT_EQ(spec_of(tensor.grad()), spec_of(tensor));
      return to_local(tensor.grad())[0].item<float>();
    };
    EXPECT_EQ(gradient_of({}), 2.001953125F);
    EXPECT_EQ(gradient_of({.backward_dtype = at::kBFloat16}), 2);
    EXPECT_EQ(gradient_of({.forward_dtype = at::kDouble}), 2.001953125F);
    EXPECT_EQ(gradient_of({.forward_dtype = at::kDouble, .backward_dtype = at::kBFloat16}), 2);
    EXPECT_EQ(gradient_of({.forward_dtype = at::kBFloat16}), 2);
  });
}

TEST(Redistribute, ACastHasASecondDerivative) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = at::ones({2}).set_requires_grad(true);
    const RedistributeOptions options{.forward_dtype = at::kDouble, .backward_dtype = at::kDouble};
    const auto global = to_local(redistribute(from_local(x, mesh, {Shard(0)}), {Replicate()}, options));
    const auto gradient = torch::autograd::grad({global.pow(3).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    EXPECT_EQ(gradient.scalar_type(), at::kFloat);
    expect_equal(torch::autograd::grad({gradient.sum()}, {x})[0], at::full({2}, 6.0F));
  });
}

TEST(Redistribute, AnAsynchronousResultIsWaitedForWhenItIsRead) {
  const auto global = whole_numbers({5, 3});
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& from) {
    const auto tensor = distributed(global, mesh, from).set_requires_grad(true);
    const auto moved = redistribute(tensor, all_layouts(mesh.ndim(), 2, {Shard(1)})[0], {.async_op = true});
    const auto again = redistribute(moved, all_layouts(mesh.ndim(), 2, {Shard(0)})[0], {.async_op = true});
    expect_equal(full_tensor(again), global);
    to_local(again).sum().backward();
    expect_equal(full_tensor(tensor.grad()), at::ones({5, 3}));
  });
}

TEST(Redistribute, WithoutDataShapesMove) {
  on_mesh({2}, [](const DeviceMesh& /*mesh*/) {
    const auto mesh = init_device_mesh("meta", {2}, {"a"});
    const auto tensor = from_local(at::ones({2, 3}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto moved = redistribute(tensor, {Shard(1)});
    EXPECT_EQ(to_local(moved).sizes(), c10::IntArrayRef({4, mesh.rank(0) == 0 ? 2 : 1}));
    to_local(moved).sum().backward();
    EXPECT_EQ(spec_of(tensor.grad()), spec_of(tensor));
  });
}

TEST(Redistribute, WithoutDataAPlainGradientIsReplicated) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto& sizes : {std::vector<int64_t>{3, 2}, {3, 0}}) {
      const auto plain = at::empty(sizes, at::kMeta);
      const auto leaf = distribute_tensor(plain, mesh, {Shard(0)}).set_requires_grad(true);
      const auto gradient = torch::autograd::grad({redistribute(leaf, {Replicate()})}, {leaf}, {plain})[0];
      ASSERT_TRUE(is_dtensor(gradient));
      EXPECT_EQ(gradient.sizes(), leaf.sizes());
      EXPECT_EQ(spec_of(gradient)->layout(), Layout{Shard(0)});
      const auto local = at::empty(sizes, at::kMeta).set_requires_grad(true);
      const auto of_local = torch::autograd::grad({from_local(local, mesh, {Replicate()})}, {local}, {plain})[0];
      EXPECT_FALSE(is_dtensor(of_local));
      EXPECT_EQ(of_local.sizes(), local.sizes());
    }
    // A plain gradient with values may differ between ranks.
    const auto x = distribute_tensor(at::ones({2}), mesh, {Shard(0)}).set_requires_grad(true);
    EXPECT_THROW(torch::autograd::grad({redistribute(x, {Replicate()})}, {x}, {at::ones({2})}), c10::TypeError);
  });
}

TEST(Redistribute, WorksInInferenceMode) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto outside = from_local(at::ones({2}), mesh, {Shard(0)});
    const c10::InferenceMode inference;
    expect_equal(full_tensor(redistribute(outside, {Shard(0)})), at::ones({4}));
    expect_equal(full_tensor(redistribute(outside, {Replicate()})), at::ones({4}));
  });
}

TEST(Redistribute, WhatCannotBeIsAnError) {
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const auto tensor = from_local(at::ones({2, 3}), mesh, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::NotImplementedError>([&] {
          const auto other = init_device_mesh("cpu", {3}, {"a"});
          redistribute(tensor, {Replicate()}, {.mesh = other, .forward_dtype = at::kDouble});
        }),
        "[redistribute] a tensor that goes to another mesh keeps its dtype, but got forward_dtype or backward_dtype "
        "for "
        "f32[4,3] @ mesh(a=2) {S(0)} and mesh(a=3). Convert it with to().");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { redistribute(tensor, {Replicate(), Replicate()}); }),
        "[redistribute] one placement per mesh dim is required, but got 2 placements {R, R} for mesh(a=2). Use R for a "
        "mesh dim that does not shard the tensor.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { redistribute(tensor, {Replicate()}, {.forward_dtype = at::kInt}); }),
        "[redistribute] forward_dtype must be of the same kind (floating, complex or integral) as f32, but got i32. "
        "Convert the tensor with to() instead.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { redistribute(tensor, {Replicate()}, {.backward_dtype = at::kBool}); }),
        "[redistribute] backward_dtype must be of the same kind (floating, complex or integral) as f32, but got bool. "
        "Convert the tensor with to() instead.");
    expect_contains(
        error_text<c10::IndexError>([&] { redistribute(tensor, {Shard(-3)}); }), "[Placement] the dim of S(-3)");
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { redistribute(at::ones({2}), {Replicate()}); }),
        "[redistribute] a distributed tensor is required, but got a plain one of shape [2]. Make one with from_local "
        "or "
        "distribute_tensor.");
    if (rank == 2) {
      EXPECT_EQ(to_local(redistribute(tensor, {Replicate()})).sizes(), c10::IntArrayRef({0}));
    } else {
      EXPECT_EQ(redistribute(tensor, {Replicate()}, {.mesh = mesh}).sizes(), c10::IntArrayRef({4, 3}));
      expect_contains(
          error_text<c10::ValueError>([&] { redistribute(tensor, {Partial()}); }),
          "[plan] a shard cannot become a partial value");
    }
  });
}

} // namespace redistribute_test

} // namespace weft
