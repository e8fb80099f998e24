#include "weft/tensor/boundary/distribute_tensor.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace distribute_tensor_test {
using namespace weft::testing;

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)};

TEST(DistributeTensor, TheValuesAreThoseOfTheSource) {
  const auto global = whole_numbers({5, 3});
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
    for (const int64_t source : {0, 1}) {
      const bool is_source = mesh.coordinate() == c10::IntArrayRef(std::vector<int64_t>(mesh.ndim(), source));
      const auto given = is_source ? global : at::full({5, 3}, -100.0F);
      const auto tensor = distribute_tensor(given, mesh, layout, {.src_data_rank = source});
      EXPECT_EQ(spec_of(tensor), TensorSpec::make(mesh, layout, {5, 3}, at::kFloat));
      expect_equal(to_local(tensor), part_of(global, mesh, layout));
      expect_equal(full_tensor(tensor), global);
    }
  });
}

TEST(DistributeTensor, WithoutASourceEachRankSlicesItsOwnTensor) {
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
    const CommLog log(mesh);
    const auto own = whole_numbers({5, 3}) + static_cast<float>(mesh.world()->rank());
    const auto tensor = distribute_tensor(own, mesh, layout, {.src_data_rank = std::nullopt});
    expect_equal(to_local(tensor), part_of(own, mesh, layout));
    EXPECT_EQ(log.calls(), 0);
  });
}

TEST(DistributeTensor, TheSourceSendsEveryShardOnce) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const CommLog log(mesh);
    distribute_tensor(at::ones({4, 2}), mesh, {Shard(0), Replicate()});
    // Scattered along a where b is 0, then broadcast along b: 16 bytes for each rank but the source.
    EXPECT_EQ(log.bytes(), mesh.world()->rank() == 0 ? 0 : 16);
    EXPECT_EQ(log.calls(), mesh.rank(1) == 0 ? 2 : 1);
  });
}

TEST(DistributeTensor, ChangingItLeavesTheOneItWasMadeOf) {
  on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
    for (const auto source : {std::optional<int64_t>(0), std::optional<int64_t>()}) {
      const auto global = whole_numbers({4, 3});
      to_local(distribute_tensor(global, mesh, layout, {.src_data_rank = source})).mul_(2);
      expect_equal(global, whole_numbers({4, 3}));
    }
  });
}

TEST(DistributeTensor, KeepsTheOrderOfDimsInMemory) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = distribute_tensor(whole_numbers({3, 4}).t(), mesh, {Shard(0)});
    EXPECT_EQ(tensor.strides(), c10::IntArrayRef({1, 4}));
    EXPECT_EQ(to_local(tensor).strides(), c10::IntArrayRef({1, 2}));
    expect_equal(full_tensor(tensor), whole_numbers({3, 4}).t());
    const auto with_gaps = distribute_tensor(whole_numbers({4, 6}).slice(1, 1, 5, 2), mesh, {Shard(0)});
    EXPECT_TRUE(with_gaps.is_contiguous());
  });
}

TEST(DistributeTensor, PartialValuesReduceToTheGlobalTensor) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Product}) {
      for (const auto& layout : {Layout{Partial(op), Shard(0)}, Layout{Partial(op), Partial(op)}}) {
        const auto tensor = distribute_tensor(whole_numbers({5, 3}), mesh, layout);
        EXPECT_EQ(spec_of(tensor)->layout(), layout);
        expect_equal(full_tensor(tensor), whole_numbers({5, 3}));
      }
    }
  });
}

TEST(DistributeTensor, IsALeafThatWantsGradientsAsItsSource) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto parameter = distribute_tensor(whole_numbers({4, 3}).set_requires_grad(true), mesh, {Shard(0)});
    EXPECT_TRUE(parameter.is_leaf());
    EXPECT_TRUE(parameter.requires_grad());
    to_local(parameter).sum().backward();
    expect_equal(full_tensor(parameter.grad()), at::ones({4, 3}));
    EXPECT_FALSE(distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)}).requires_grad());
  });
}

TEST(DistributeTensor, ADistributedTensorStaysIfItIsAsAskedAlready) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = distribute_tensor(at::ones({4, 2}), mesh, {Shard(0)});
    EXPECT_TRUE(distribute_tensor(tensor, mesh, {Shard(-2)}).is_same(tensor));
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { distribute_tensor(tensor, mesh, {Shard(1)}); }),
        "[distribute_tensor] a plain tensor is required, or one that is distributed as asked, but got f32[4,2] @ "
        "mesh(a=2) {S(0)} for {S(1)} on mesh(a=2). Use redistribute to change its placements.");
  });
}

TEST(DistributeTensor, ZeroDimsMetaAndOtherRanks) {
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const auto local = to_local(distribute_tensor(at::ones({4, 3}), mesh, {Shard(0)}));
    EXPECT_EQ(local.sizes(), rank == 2 ? c10::IntArrayRef({0}) : c10::IntArrayRef({2, 3}));
    const auto all = init_device_mesh("cpu", {3}, {"a"});
    EXPECT_EQ(
        full_tensor(distribute_tensor(at::scalar_tensor(static_cast<float>(rank + 5)), all, {Replicate()}))
            .item<float>(),
        5);
    const auto meta = distribute_tensor(at::empty({4, 3}, at::device(at::kMeta)), all, {Shard(0)});
    EXPECT_TRUE(meta.is_meta());
    const auto meta_mesh = init_device_mesh("meta", {3}, {"a"});
    EXPECT_TRUE(distribute_tensor(at::ones({4, 3}), meta_mesh, {Shard(0)}).is_meta());
  });
}

TEST(DistributeTensor, WhatCannotBeIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto text = [&](const at::Tensor& tensor, const Layout& layout, const DistributeOptions& options = {}) {
      return error_text<c10::ValueError>([&] { distribute_tensor(tensor, mesh, layout, options); });
    };
    EXPECT_EQ(
        text(at::ones({4}), {Shard(0), Shard(0)}),
        "[distribute_tensor] one placement per mesh dim is required, but got 2 placements {S(0), S(0)} for mesh(a=2). "
        "Use R for a mesh dim that does not shard the tensor.");
    EXPECT_EQ(
        text(at::ones({4}).set_requires_grad(true) * 2, {Shard(0)}),
        "[distribute_tensor] a leaf is required, since the result is one, but got a tensor of shape [4] that has a "
        "history. Use from_local inside a computation, or detach it first.");
    for (const int64_t source : {-1, 2}) {
      EXPECT_EQ(
          text(at::ones({4}), {Shard(0)}, {.src_data_rank = source}),
          c10::str(
              "[distribute_tensor] src_data_rank must be a position along every mesh dim of mesh(a=2), but got ",
              source, ". Use 0 for the first rank."));
    }
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { distribute_tensor(at::Tensor(), mesh, {Shard(0)}); }),
        "[distribute_tensor] a tensor is required, but got an undefined one.");
    expect_contains(
        error_text<c10::IndexError>([&] { distribute_tensor(at::scalar_tensor(1), mesh, {Shard(0)}); }),
        "A 0-dim tensor can only be R or P.");
    EXPECT_EQ(
        error_text<c10::NotImplementedError>(
            [&] { distribute_tensor(at::ones({4, 2}).to_sparse(), mesh, {Shard(0)}); }),
        "[distribute_tensor] a strided tensor is required, but got one of layout Sparse. Make it dense with to_dense.");
  });
}

TEST(DistributeTensor, ALazyConjugateIsComputed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = at::complex(whole_numbers({4}), whole_numbers({4}) + 1).conj();
    for (const Layout& layout : {Layout{Shard(0)}, Layout{Replicate()}}) {
      expect_equal(full_tensor(distribute_tensor(global, mesh, layout)), global);
    }
  });
}

TEST(DistributeTensor, InDebugModeShapesThatDifferAreAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const DebugScope debug;
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { distribute_tensor(at::ones({4 + mesh.rank(0)}), mesh, {Shard(0)}); }),
        "[distribute_tensor] all ranks must give tensors of one shape, but rank 0 gave [4] and rank 1 gave [5]. Give "
        "a tensor of the source's shape on every rank.");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] {
          const auto square = at::ones({2, 2});
          distribute_tensor(mesh.rank(0) == 0 ? square : square.t(), mesh, {Shard(0)});
        }),
        "[distribute_tensor] all ranks must give tensors with their dims in one order in memory, but rank 0 gave one "
        "for "
        "the global strides [2, 1] and rank 1 one for [1, 2]. Give contiguous tensors.");
    expect_equal(full_tensor(distribute_tensor(at::ones({}), mesh, {Replicate()})), at::ones({}));
  });
}

TEST(DistributeTensor, StridesThatDifferBetweenRanksDoNotMixUpValues) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 4});
    const auto other = at::empty({4, 4}).t();
    const auto tensor = distribute_tensor(mesh.rank(0) == 0 ? global : other, mesh, {Shard(0)});
    expect_equal(full_tensor(tensor), global);
    expect_equal(full_tensor(redistribute(tensor, {Shard(1)})), global);
    expect_equal(full_tensor(tensor + 1), global + 1);
  });
}

} // namespace distribute_tensor_test

} // namespace weft
