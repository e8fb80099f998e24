#include "weft/redistribute/execute.h"

#include "tests/support/layout_cases.h"
#include "tests/support/process_ranks.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

namespace weft {

namespace execute_test {
using namespace weft::testing;

struct MeshCase {
  std::vector<int64_t> shape;
  std::vector<std::string> names;
  const char* device = "cpu";

  int64_t size() const {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
};

const std::vector<MeshCase> kMeshes = {
    {{2}, {"a"}},         {{3}, {"a"}},
    {{4}, {"a"}},         {{2, 2}, {"a", "b"}},
    {{2, 3}, {"a", "b"}},
#ifdef WEFT_TEST_CUDA
    {{3}, {"a"}, "cuda"}, {{2, 2}, {"a", "b"}, "cuda"},
#endif
};

/// Shapes that are not divisible, give empty shards, have no elements, have no dims.
const std::vector<std::vector<int64_t>> kShapes = {{5, 3}, {1, 2}, {0, 3}, {}};

at::Tensor integers(c10::IntArrayRef sizes) {
  const auto count = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  return (at::arange(count, at::kFloat) - count / 2).view(sizes);
}

class ExecuteEveryPair : public ::testing::TestWithParam<size_t> {};

/// Redistributes a tensor from every layout to every other, and compares the results with gathering and sharding again.
void check_every_pair(
    const MeshCase& mesh_case,
    const std::vector<int64_t>& sizes,
    const std::vector<Layout>& layouts) {
  const auto global = integers(sizes);
  // results[source][target][rank]
  std::vector<std::vector<std::vector<at::Tensor>>> results(
      layouts.size(), std::vector<std::vector<at::Tensor>>(layouts.size(), std::vector<at::Tensor>(mesh_case.size())));
  run_on_ranks(mesh_case.size(), [&](int64_t rank) {
    const auto mesh = init_device_mesh(mesh_case.device, mesh_case.shape, mesh_case.names);
    for (size_t a = 0; a < layouts.size(); ++a) {
      const auto source = TensorSpec::make(mesh, layouts[a], sizes, at::kFloat);
      const auto local = local_by_definition(global, layouts[a], mesh.shape(), mesh.coordinate()).to(mesh_case.device);
      for (size_t b = 0; b < layouts.size(); ++b) {
        if (!is_refused(layouts[a], layouts[b])) {
          results[a][b][rank] = redistribute_local(local, source, source->with(layouts[b])).wait().cpu();
        }
      }
    }
  });
  for (size_t a = 0; a < layouts.size(); ++a) {
    for (size_t b = 0; b < layouts.size(); ++b) {
      if (is_refused(layouts[a], layouts[b])) {
        continue;
      }
      auto shards_only = layouts[b];
      for (int64_t m = 0; m < shards_only.ndim(); ++m) {
        shards_only = shards_only[m].is_partial() ? shards_only.with(m, Replicate()) : shards_only;
      }
      const auto values = reduce_partials(results[a][b], layouts[b], mesh_case.shape);
      for (int64_t rank = 0; rank < mesh_case.size(); ++rank) {
        const auto coordinate = coordinate_at(rank, mesh_case.shape);
        const auto expected = local_by_definition(global, shards_only, mesh_case.shape, coordinate);
        ASSERT_TRUE(values[rank].equal(expected))
            << layouts[a] << " -> " << layouts[b] << " on rank " << rank << " of mesh "
            << c10::IntArrayRef(mesh_case.shape) << ", shape " << c10::IntArrayRef(sizes) << "\n"
            << values[rank] << "\nexpected\n"
            << expected;
      }
    }
  }
}

TEST_P(ExecuteEveryPair, EqualsGatheringAndShardingAgain) {
  const auto& mesh_case = kMeshes[GetParam()];
  for (const auto& sizes : kShapes) {
    const auto ndim = static_cast<int64_t>(sizes.size());
    ASSERT_NO_FATAL_FAILURE(check_every_pair(
        mesh_case, sizes, all_layouts(static_cast<int64_t>(mesh_case.shape.size()), ndim, all_placements(ndim))));
  }
}

TEST_P(ExecuteEveryPair, OfRaggedShardsEqualsGatheringAndShardingAgain) {
  const auto& mesh_case = kMeshes[GetParam()];
  // An empty member first, in the middle and last; more rows than there are, and fewer.
  const std::vector<Placement> placements = {
      Replicate(),
      Shard(0),
      StridedShard(0, 2),
      Partial(),
      Partial(ReduceOp::Max),
      RaggedShard(0, {0, 5}),
      RaggedShard(1, {1, 2}),
      RaggedShard(0, {3, 0, 2}),
      RaggedShard(1, {9, 1, 1}),
      RaggedShard(0, {1, 3, 0, 0})};
  for (const auto& sizes : kShapes) {
    const auto ndim = static_cast<int64_t>(sizes.size());
    ASSERT_NO_FATAL_FAILURE(check_every_pair(mesh_case, sizes, all_layouts(mesh_case.shape, ndim, placements)));
  }
}

TEST_P(ExecuteEveryPair, LeavesReplicasBitwiseEqual) {
  const auto& mesh_case = kMeshes[GetParam()];
  const auto layouts = all_layouts(
      static_cast<int64_t>(mesh_case.shape.size()), 2,
      {Replicate(), Shard(0), Shard(1), Partial(), Partial(ReduceOp::Avg)});
  const std::vector<int64_t> sizes = {97, 211}; // large enough for a reduction in two rounds
  std::vector<std::vector<at::Tensor>> results(layouts.size(), std::vector<at::Tensor>(mesh_case.size()));
  run_on_ranks(mesh_case.size(), [&](int64_t rank) {
    const auto mesh = init_device_mesh(mesh_case.device, mesh_case.shape, mesh_case.names);
    for (size_t a = 0; a < layouts.size(); ++a) {
      const auto source = TensorSpec::make(mesh, layouts[a], sizes, at::kFloat);
      // Replicas of the source hold the same values: the seed depends only on the rank's position along other mesh
      // dims.
      int64_t seed = 1;
      for (int64_t m = 0; m < mesh.ndim(); ++m) {
        seed = seed * 7 + (layouts[a][m].is_replicate() ? 0 : mesh.rank(m));
      }
      auto generator = at::detail::createCPUGenerator(seed);
      const auto local = at::randn(source->local_shape_and_offset().shape, generator, at::kFloat).to(mesh_case.device);
      const Layout replicated(Placements(mesh.ndim(), Replicate()));
      results[a][rank] = redistribute_local(local, source, source->with(replicated)).wait().cpu();
    }
  });
  for (size_t a = 0; a < layouts.size(); ++a) {
    for (int64_t rank = 1; rank < mesh_case.size(); ++rank) {
      EXPECT_TRUE(results[a][0].equal(results[a][rank])) << layouts[a] << " differs on rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, ExecuteEveryPair, ::testing::Range(size_t{0}, kMeshes.size()));

/// Run in a separate process: checks every pair that ends in shards and replicas against this rank's local tensor.
void check_all_pairs(const MeshCase& mesh_case) {
  const auto mesh = init_device_mesh(mesh_case.device, mesh_case.shape, mesh_case.names);
  const auto global = integers({5, 3});
  const auto layouts = all_layouts(mesh.ndim(), 2, all_placements(2));
  int64_t checked = 0;
  for (const auto& from : layouts) {
    const auto source = TensorSpec::make(mesh, from, global.sizes(), at::kFloat);
    const auto local = local_by_definition(global, from, mesh.shape(), mesh.coordinate());
    for (const auto& to : layouts) {
      if (to.has_partial()) {
        continue;
      }
      const auto result = redistribute_local(local, source, source->with(to)).wait();
      const auto expected = local_by_definition(global, to, mesh.shape(), mesh.coordinate());
      TORCH_CHECK(result.equal(expected), from, " -> ", to, " is wrong on rank ", mesh.world()->rank());
      ++checked;
    }
  }
  say("checked ", checked, " pairs");
}

RANK_ROLE(redistribute_on_two) {
  check_all_pairs({{2}, {"a"}});
}

RANK_ROLE(redistribute_on_two_by_two) {
  check_all_pairs({{2, 2}, {"a", "b"}});
}

TEST(Execute, EveryPairIsRightBetweenProcesses) {
  for (const auto& rank : run_process_ranks("redistribute_on_two", 2)) {
    EXPECT_TRUE(rank.has_line("checked 50 pairs")) << rank.output;
  }
  for (const auto& rank : run_process_ranks("redistribute_on_two_by_two", 4)) {
    EXPECT_TRUE(rank.has_line("checked 2970 pairs")) << rank.output;
  }
}

TEST(Execute, MovesEveryDtype) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    for (const auto dtype :
         {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool,
          at::kComplexFloat}) {
      const auto global = at::arange(15, at::kLong).remainder(2).view({5, 3}).to(dtype);
      const auto spec = TensorSpec::make(mesh, {Shard(0)}, global.sizes(), dtype);
      const auto local = local_by_definition(global, spec->layout(), mesh.shape(), mesh.coordinate());
      EXPECT_TRUE(redistribute_local(local, spec, spec->with({Replicate()})).wait().equal(global)) << dtype;
      const auto columns = redistribute_local(local, spec, spec->with({Shard(1)})).wait();
      EXPECT_TRUE(columns.equal(local_by_definition(global, Layout({Shard(1)}), mesh.shape(), mesh.coordinate())))
          << dtype;
      const auto term = mesh.rank(0) == 0 ? global : at::zeros_like(global);
      const auto partial = spec->with({Partial()});
      EXPECT_TRUE(redistribute_local(term, partial, spec->with({Replicate()})).wait().equal(global)) << dtype;
    }
  });
}

TEST(Execute, TakesLocalTensorsThatAreNotContiguous) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto global = integers({6, 4});
    const auto spec = TensorSpec::make(mesh, {Shard(0)}, global.sizes(), at::kFloat);
    const auto local =
        local_by_definition(global, spec->layout(), mesh.shape(), mesh.coordinate()).t().contiguous().t();
    ASSERT_FALSE(local.is_contiguous());
    EXPECT_TRUE(redistribute_local(local, spec, spec->with({Replicate()})).wait().equal(global));
  });
}

TEST(Execute, StartsAtOnceAndFinishesWhenRead) {
  run_on_ranks(4, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    const auto global = at::ones({256, 256});
    const auto spec = TensorSpec::make(mesh, {Partial(), Partial(ReduceOp::Avg)}, global.sizes(), at::kFloat);
    const auto target = spec->with({Replicate(), Replicate()});
    const auto first = redistribute_local(global, spec, target);
    const auto second = redistribute_local(global * 2, spec, target);
    EXPECT_FALSE(first.ready());
    // Ranks read in different orders, and one of them reads only one value.
    if (rank % 2 == 0) {
      EXPECT_TRUE(first.wait().equal(global * 2));
    }
    if (rank != 3) {
      EXPECT_TRUE(second.wait().equal(global * 4));
    }
  });
}

TEST(Execute, CompilesAPlanOncePerPairOfSpecs) {
  const auto mesh = DeviceMesh(make_fake_world(4), c10::kCPU, {2, 2}, {"dp", "tp"});
  const auto source = TensorSpec::parse("f32[8,8] @ mesh(dp=2,tp=2) {R, R}", mesh.world());
  const auto target = source->with(Layout::parse("{S(0), R}"));
  const auto before = plan_cache_counters();
  for (int i = 0; i < 10; ++i) {
    redistribute_local(at::zeros({8, 8}), source, target).wait();
  }
  const auto after = plan_cache_counters();
  EXPECT_EQ(after.misses - before.misses, 1);
  EXPECT_EQ(after.hits - before.hits, 9);
  EXPECT_EQ(after.size - before.size, 1);
}

TEST(Execute, KeepsTheCacheBounded) {
  const auto mesh = DeviceMesh(make_fake_world(2), c10::kCPU, {2}, {"tp"});
  for (int64_t size = 1; size < 5000; ++size) {
    const auto source = TensorSpec::make(mesh, {Replicate()}, {size}, at::kFloat);
    redistribute_local(at::empty({size}), source, source->with({Shard(0)})).wait();
    ASSERT_LE(plan_cache_counters().size, 4096);
  }
}

TEST(Execute, SharesMemoryWhereNothingMoves) {
  const auto mesh = DeviceMesh(make_fake_world(2), c10::kCPU, {2}, {"tp"});
  const auto source = TensorSpec::make(mesh, {Replicate()}, {8, 8}, at::kFloat);
  const auto local = at::rand({8, 8});
  const auto rows = redistribute_local(local, source, source->with({Shard(0)})).wait();
  EXPECT_EQ(rows.data_ptr(), local.data_ptr());
  EXPECT_EQ(redistribute_local(local, source, source).wait().data_ptr(), local.data_ptr());
}

TEST(Execute, ShardsSmallAndLargeTensorsAlongAnyDim) {
  const auto mesh = DeviceMesh(make_fake_world(2, 1), c10::kCPU, {2}, {"tp"});
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{4, 6}, {3, 4, 5}, {2, 3, 2, 7}, {300, 400}}) {
    const auto global = integers(sizes);
    for (const auto& local : {global, global.transpose(0, 1).contiguous().transpose(0, 1)}) {
      const auto source = TensorSpec::make(mesh, {Replicate()}, sizes, at::kFloat);
      for (int64_t d = 0; d < global.dim(); ++d) {
        const auto shard = redistribute_local(local, source, source->with({Shard(d)})).wait();
        EXPECT_TRUE(shard.equal(local_by_definition(global, {Shard(d)}, {2}, {1}))) << global.sizes() << " dim " << d;
        EXPECT_TRUE(shard.is_contiguous());
      }
    }
  }
}

TEST(Execute, RefusesALocalTensorOfAnotherShapeAndReleasesTheOthers) {
  std::array<std::string, 2> errors;
  const auto run = [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto source = TensorSpec::make(mesh, {Shard(0)}, {5, 3}, at::kFloat);
    try {
      redistribute_local(at::zeros({3, 3}), source, source->with({Replicate()})).wait();
    } catch (const c10::Error& error) {
      errors[rank] = error.what_without_backtrace();
      throw;
    }
  };
  EXPECT_THROW(run_on_ranks(2, run), c10::ValueError);
  EXPECT_EQ(
      errors[1],
      "[redistribute] rank 1 must hold a local tensor of shape [2, 3] of f32[5,3] @ mesh(tp=2) {S(0)}, but got [3, 3] "
      "of Float.");
  EXPECT_NE(
      errors[0].find("rank 1 does not participate: it failed with: [redistribute] rank 1 must hold"), std::string::npos)
      << errors[0];
}

TEST(Execute, RefusesBadPairsOnEveryRankBeforeAnyRankWaits) {
  const auto run = [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto source = TensorSpec::make(mesh, {Shard(0)}, {4, 4}, at::kFloat);
    EXPECT_THROW(redistribute_local(at::zeros({2, 4}), source, source->with({Partial()})), c10::ValueError);
    const auto other = TensorSpec::make(mesh.flatten({"tp"}, "other"), Layout({Replicate()}), {4, 4}, at::kFloat);
    EXPECT_THROW(redistribute_local(at::zeros({2, 4}), source, other), c10::ValueError);
    // Nothing was started: the next call goes through.
    EXPECT_EQ(redistribute_local(at::ones({2, 4}), source, source->with({Replicate()})).wait().size(0), 4);
  };
  run_on_ranks(2, run);
}

TEST(Execute, ANumberStaysANumberForTypePromotionOnEveryRank) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto number = at::scalar_tensor(1e-3, at::kDouble);
    number.unsafeGetTensorImpl()->set_wrapped_number(true);
    const auto source = TensorSpec::make(mesh, {Replicate()}, {}, at::kDouble);
    for (const auto op : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min}) {
      const auto term = redistribute_local(number, source, source->with({Partial(op)})).wait();
      EXPECT_TRUE(term.unsafeGetTensorImpl()->is_wrapped_number()) << rank << " " << Partial(op);
      EXPECT_EQ((at::ones({}, at::kFloat) + term).scalar_type(), at::kFloat) << rank << " " << Partial(op);
    }
  });
}

TEST(Execute, ARankThatIsNotInTheMeshNeitherSendsNorReceives) {
  const DeviceMesh mesh(make_fake_world(4, 3), c10::kCPU, {2}, {"tp"});
  for (const auto& sizes : {std::vector<int64_t>{4, 4}, std::vector<int64_t>{}}) {
    const auto source = TensorSpec::make(mesh, {Partial()}, sizes, at::kFloat);
    const auto nothing = at::zeros(source->local_shape_and_offset().shape);
    const auto moved = redistribute_local(nothing, source, source->with({Replicate()})).wait();
    EXPECT_TRUE(at::equal(moved, nothing));
  }
}

} // namespace execute_test

} // namespace weft
