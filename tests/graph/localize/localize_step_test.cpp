#include "weft/graph/localize/localize_step.h"

#include "tests/support/error_text.h"
#include "tests/support/move_programs.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/graph/analysis/effects.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/exec/executor.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/localize/localize.h"

namespace weft::graph {

namespace localize_step_test {
using namespace weft::testing;

std::vector<Layout> possible_targets(const Layout& source, const std::vector<Layout>& layouts) {
  std::vector<Layout> targets;
  for (const auto& target : layouts) {
    if (!is_refused(source, target)) {
      targets.push_back(target);
    }
  }
  return targets;
}

/// Runs every redistribution between two of the layouts, and compares the results with the local tensors of the target.
void check_moves(
    const DeviceMesh& mesh,
    const Sizes& sizes,
    const std::vector<Layout>& layouts,
    const std::vector<MoveRun>& runs,
    const std::function<Program(const Program&, int64_t)>& make) {
  for (const auto& source : layouts) {
    const auto targets = possible_targets(source, layouts);
    const auto program = move_program(mesh, sizes, source, targets, runs[0].global.scalar_type());
    verify(program);
    const auto results = run_moves(program, source, runs, [&](int64_t rank) { return make(program, rank); });
    for (size_t run = 0; run < runs.size(); ++run) {
      for (size_t i = 0; i < targets.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(expect_locals_of(runs[run].global, source, targets[i], results[run][i], mesh.shape()));
      }
    }
  }
}

Program as_it_is(const Program& program, int64_t rank) {
  auto local = localize(program, rank);
  verify(local);
  return local;
}

Program with_all_passes(const Program& program, int64_t rank) {
  return program_of_rank(program, rank);
}

class EveryMove : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryMove, LeavesEveryRankTheLocalTensorOfTheTargetLayout) {
  const auto mesh = DeviceMesh::parse(GetParam());
  // Uneven shards, empty local tensors, no elements, even shards, one dim, no dim.
  for (const auto& shape : std::vector<std::vector<int64_t>>{{5, 3}, {1, 2}, {0, 3}, {6, 4}, {7}, {}}) {
    const auto dim = static_cast<int64_t>(shape.size());
    const auto layouts = all_layouts(mesh.ndim(), dim, all_placements(dim));
    const Sizes sizes(shape.begin(), shape.end());
    ASSERT_NO_FATAL_FAILURE(check_moves(mesh, sizes, layouts, {{numbered(shape)}}, as_it_is));
  }
}

TEST_P(EveryMove, OfRaggedShardsLeavesEveryRankItsLocalTensor) {
  const auto mesh = DeviceMesh::parse(GetParam());
  const auto layouts = all_layouts(
      mesh.shape(), 2,
      {Replicate(), Shard(0), StridedShard(0, 2), Partial(), RaggedShard(0, {0, 5}), RaggedShard(1, {1, 2}),
       RaggedShard(0, {3, 0, 2}), RaggedShard(0, {1, 3, 0, 0})});
  ASSERT_NO_FATAL_FAILURE(check_moves(mesh, {5, 3}, layouts, {{numbered({5, 3})}}, as_it_is));
}

TEST_P(EveryMove, IsTheSameForSymbolsWhateverTheyAre) {
  const auto mesh = DeviceMesh::parse(GetParam());
  const auto a = Size::symbol("s0");
  const auto b = Size::symbol("s1");
  const auto layouts = all_layouts(
      mesh.ndim(), 2, {Replicate(), Shard(0), Shard(1), Partial(), Partial(ReduceOp::Avg), Partial(ReduceOp::Max)});
  const std::vector<Sizes> cases = {{a, b}, {a * Size(2), 3}, {4, a}, {a, a}};
  for (size_t i = 0; i < (mesh.ndim() == 1 ? cases.size() : 2); ++i) {
    const auto& sizes = cases[i];
    std::vector<MoveRun> runs;
    for (int64_t value = 0; value < 10; ++value) {
      MoveRun run{{}, {{"s0", value}, {"s1", 9 - value}}};
      run.global = numbered({sizes[0].evaluate(run.symbols), sizes[1].evaluate(run.symbols)});
      runs.push_back(std::move(run));
    }
    ASSERT_NO_FATAL_FAILURE(check_moves(mesh, sizes, layouts, runs, as_it_is));
  }
}

TEST_P(EveryMove, IsTheSameAfterAllPasses) {
  const auto mesh = DeviceMesh::parse(GetParam());
  const auto layouts = all_layouts(
      mesh.ndim(), 2, {Replicate(), Shard(0), Shard(1), StridedShard(1, 2), Partial(), Partial(ReduceOp::Avg)});
  ASSERT_NO_FATAL_FAILURE(check_moves(mesh, {5, 3}, layouts, {{numbered({5, 3})}}, with_all_passes));
}

TEST_P(EveryMove, IsTheSameForStridedBlocksThatDivideASymbol) {
  const auto mesh = DeviceMesh::parse(GetParam());
  if (mesh.ndim() > 1) {
    return; // two mesh dims that shard one tensor dim, one of them strided, need sizes that are numbers
  }
  const auto layouts =
      all_layouts(1, 2, {Replicate(), StridedShard(0, 2), Shard(1), Partial(), Partial(ReduceOp::Avg)});
  std::vector<MoveRun> runs;
  for (int64_t value = 0; value < 10; ++value) {
    runs.push_back({numbered({2 * value, 3}), {{"s0", value}}});
  }
  ASSERT_NO_FATAL_FAILURE(check_moves(mesh, {Size(2) * Size::symbol("s0"), 3}, layouts, runs, as_it_is));
}

INSTANTIATE_TEST_SUITE_P(
    LocalizeStep,
    EveryMove,
    ::testing::Values("mesh(a=2)", "mesh(a=3)", "mesh(a=4)", "mesh(a=2,b=2)", "mesh(a=2,b=3)", "mesh(a=1,b=2)"));

TEST(LocalizeStep, MovesOverThreeMeshDims) {
  const auto mesh = DeviceMesh::parse("mesh(a=2,b=2,c=2)");
  const auto layouts = all_layouts(3, 1, {Replicate(), Shard(0), Partial()});
  ASSERT_NO_FATAL_FAILURE(check_moves(mesh, {5}, layouts, {{numbered({5})}}, as_it_is));
  std::vector<MoveRun> runs;
  for (const int64_t value : {0, 1, 5, 8}) {
    runs.push_back({numbered({value}), {{"s0", value}}});
  }
  ASSERT_NO_FATAL_FAILURE(check_moves(mesh, {Size::symbol("s0")}, layouts, runs, as_it_is));
}

TEST(LocalizeStep, MovesEveryDtype) {
  const auto mesh = DeviceMesh::parse("mesh(a=3)");
  for (const auto dtype :
       {at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool, at::kComplexFloat}) {
    const auto global = at::arange(15, at::kLong).remainder(2).view({5, 3}).to(dtype);
    const auto layouts = all_layouts(1, 2, {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)});
    ASSERT_NO_FATAL_FAILURE(check_moves(mesh, {5, 3}, layouts, {{global}}, as_it_is)) << dtype;
    // To make a value partial, the first rank keeps it and the others take zeros.
    const auto program = move_program(mesh, {5, 3}, {Replicate()}, {{Partial()}}, dtype);
    const auto terms =
        run_moves(program, {Replicate()}, {{global}}, [&](int64_t rank) { return localize(program, rank); });
    EXPECT_TRUE(terms[0][0][0].equal(global)) << dtype;
    EXPECT_TRUE(terms[0][0][2].equal(at::zeros_like(global))) << dtype;
  }
}

TEST(LocalizeStep, ReducesTruthAndNumbersAsTheyAre) {
  for (const auto* text : {"{P(sum)}", "{P(max)}", "{P(min)}", "{P(product)}"}) {
    for (const auto dtype : {at::kLong, at::kBool}) {
      const auto mesh = DeviceMesh::parse("mesh(a=2)");
      const auto global = at::ones({3}, dtype);
      const auto source = Layout::parse(text);
      const auto program = move_program(mesh, {3}, source, {{Replicate()}, {Shard(0)}}, dtype);
      run_on_ranks(2, [&](int64_t rank) {
        Executor executor(std::make_shared<const Program>(localize(program, rank)));
        const auto outputs = executor.run({rank == 0 ? global : at::zeros_like(global)});
        const auto expected = source[0].reduce_op() == ReduceOp::Sum || source[0].reduce_op() == ReduceOp::Max
            ? global
            : at::zeros_like(global);
        EXPECT_TRUE(outputs[0].toTensor().equal(expected)) << text << dtype << outputs[0];
        EXPECT_TRUE(outputs[1].toTensor().equal(expected.narrow(0, 0, rank == 0 ? 2 : 1))) << text << dtype;
      });
    }
  }
}

TEST(LocalizeStep, AnAverageOfLargeHalvesIsNotTooLarge) {
  const auto mesh = DeviceMesh::parse("mesh(a=4)");
  const auto program = move_program(mesh, {6}, {Partial(ReduceOp::Avg)}, {{Replicate()}, {Shard(0)}}, at::kHalf);
  run_on_ranks(4, [&](int64_t rank) {
    Executor executor(std::make_shared<const Program>(localize(program, rank)));
    const auto outputs = executor.run({at::full({6}, 60000.0, at::kHalf)});
    EXPECT_TRUE(outputs[0].toTensor().equal(at::full({6}, 60000.0, at::kHalf))) << outputs[0];
    EXPECT_TRUE(outputs[1].toTensor().eq(60000.0).all().item<bool>());
  });
}

TEST(LocalizeStep, AnAverageOfIntegersIsRefused) {
  const auto* text = R"(program @ mesh(tp=2)
input %x: i64[6] {P(avg)} = user
  %all_reduce: i64[6] {R} = all_reduce(%x, tp: {P(avg)} -> {R})
output %all_reduce = user
)";
  EXPECT_EQ(
      error_text<c10::TypeError>([&] { localize(parse_program(text), 0); }),
      "[localize] an average needs a floating point or complex dtype, but got Long. Reduce by sum, or convert first.");
}

TEST(LocalizeStep, StridedBlocksOfASymbolThatTheyMayNotDivideAreRefused) {
  const auto mesh = DeviceMesh::parse("mesh(a=2)");
  const auto sizes = Sizes{Size::symbol("s0"), 3};
  const auto layouts = all_layouts(1, 2, all_placements(2));
  for (const auto& source : layouts) {
    for (const auto& target : possible_targets(source, layouts)) {
      const auto program = move_program(mesh, sizes, source, {target});
      const bool is_strided = source[0] == StridedShard(0, 2) || target[0] == StridedShard(0, 2);
      const bool needs_numbers = (source[0] == Shard(1) && target[0] == StridedShard(1, 2)) ||
          (source[0] == StridedShard(1, 2) && target[0] == Shard(1));
      // Two blocks of 3 columns are uneven, so that the step is a transfer.
      const bool is_uneven = (source[0] == StridedShard(1, 2)) != (target[0] == StridedShard(1, 2));
      if (!is_strided && !needs_numbers && !is_uneven) {
        localize(program, 1);
        continue;
      }
      const auto text = error_text<c10::NotImplementedError>([&] { localize(program, 1); });
      expect_contains(
          text,
          source[0] == StridedShard(0, 2)
              ? "[localize] the size s0 of a dim sharded as {SS(0,2)} must be a number, or a multiple of 2."
              : " needs sizes that are numbers, but got s0. ");
      expect_contains(text, "Export the program with a fixed size there.");
    }
  }
}

std::string localized(std::string_view text, int64_t rank, const LocalizeOptions& options = {}) {
  const auto program = parse_program(text);
  verify(program);
  const auto local = localize(program, rank, options);
  verify(local);
  return to_string(local);
}

TEST(LocalizeStep, UnevenShardsArePaddedSoThatAllRanksSendEquallyMuch) {
  const auto* text = R"(program @ mesh(tp=2)
input %x: f32[4,5] {S(1)} = user
  %all_gather: f32[4,5] {R} = all_gather(%x, tp: {S(1)} -> {R})
output %all_gather = user
)";
  EXPECT_EQ(
      localized(text, 1),
      R"(program @ mesh(tp=2)
input %x: f32[4,2] = user
  %constant_pad_nd: f32[4,3] = aten::constant_pad_nd(%x, [0, 1])
  %all_gather_into_tensor: f32[8,3] = _c10d_functional::all_gather_into_tensor(%constant_pad_nd, 2, "tp")
  %wait_tensor: f32[8,3] = _c10d_functional::wait_tensor(%all_gather_into_tensor)
  [%split: f32[4,3], %split_1: f32[4,3]] = aten::split.Tensor(%wait_tensor, 4, 0)
  %cat: f32[4,6] = aten::cat([%split, %split_1], 1)
  %slice: f32[4,5|6,1] = aten::slice.Tensor(%cat, 1, 0, 5)
  %clone: f32[4,5] = aten::clone(%slice, memory_format=contiguous_format)
output %clone = user
)");
}

TEST(LocalizeStep, GroupsAreCalledByTheirMeshDimsOrAsTheCallerSays) {
  const auto* text = R"(program @ mesh(dp=2,tp=2)
input %x: f32[4] {P(sum), P(sum)} = user
  %all_reduce: f32[4] {R, R} = all_reduce(%x, dp,tp: {P(sum), P(sum)} -> {R, R})
output %all_reduce = user
)";
  expect_contains(localized(text, 0), R"(_c10d_functional::all_reduce(%x, "sum", "dp,tp"))");
  expect_contains(
      localized(text, 0, {.group_names = {{"dp,tp", "7"}, {"tp", "1"}}}),
      R"(_c10d_functional::all_reduce(%x, "sum", "7"))");
}

TEST(LocalizeStep, NothingIsSentOfATensorWithoutElements) {
  const auto* text = R"(program @ mesh(tp=2)
input %x: f32[0,5] {S(1)} = user
  %all_gather: f32[0,5] {R} = all_gather(%x, tp: {S(1)} -> {R})
output %all_gather = user
)";
  EXPECT_EQ(
      localized(text, 1),
      R"(program @ mesh(tp=2)
input %x: f32[0,2] = user
  %new_zeros: f32[0,5] = aten::new_zeros(%x, [0, 5])
output %new_zeros = user
)");
}

TEST(LocalizeStep, AllRanksMakeTheSameCollectivesWhereSomeLocalTensorsAreEmpty) {
  const auto mesh = DeviceMesh::parse("mesh(a=2,b=3)");
  const auto layouts = all_layouts(2, 2, {Replicate(), Shard(0), Shard(1), StridedShard(1, 2), Partial()});
  for (const auto& source : layouts) {
    const auto program = move_program(mesh, {1, 2}, source, possible_targets(source, layouts));
    std::vector<std::string> first;
    for (int64_t rank = 0; rank < 6; ++rank) {
      std::vector<std::string> names;
      const auto local = program_of_rank(program, rank);
      for (const auto* node = local.graph->first(); node != nullptr; node = node->next()) {
        if (communicates(*node)) {
          names.push_back(target_name(*node) + " " + node->arguments().back().constant().toStringRef());
        }
      }
      first = rank == 0 ? names : first;
      ASSERT_EQ(names, first) << source << " on rank " << rank;
    }
  }
}

} // namespace localize_step_test

} // namespace weft::graph
