#include "weft/redistribute/plan.h"

#include "tests/support/error_text.h"
#include "tests/support/layout_cases.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace weft {

namespace plan_test {
using namespace weft::testing;

std::string plan_text(const char* source, const char* target) {
  const auto from = TensorSpec::parse(source);
  return plan(from, from->with(Layout::parse(target))).to_string();
}

TEST(Plan, NothingToDoIsAnEmptyPlan) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=2,tp=2) {S(0), R}", "{S(0), R}"), "nothing");
}

TEST(Plan, ShardToReplicateIsOneAllGather) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(tp=2) {S(1)}", "{R}"), "all_gather(tp: S(1) -> R)");
}

TEST(Plan, ShardToShardIsOneAllToAll) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(tp=2) {S(0)}", "{S(1)}"), "all_to_all(tp: S(0) -> S(1))");
}

TEST(Plan, PartialToShardIsOneReduceScatter) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(tp=2) {P(sum)}", "{S(1)}"), "reduce_scatter(tp: P(sum) -> S(1))");
}

TEST(Plan, ReplicateToShardOrPartialIsLocal) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(tp=2) {R}", "{S(1)}"), "slice(tp: R -> S(1))");
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(tp=2) {R}", "{P(sum)}"), "make_partial(tp: R -> P(sum))");
}

TEST(Plan, SameStepsOverSeveralMeshDimsAreOneCollective) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=2,tp=2) {S(0), S(1)}", "{R, R}"), "all_gather(dp,tp: S(0),S(1) -> R,R)");
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=2,tp=2) {S(0), S(0)}", "{R, R}"), "all_gather(dp,tp: S(0),S(0) -> R,R)");
  EXPECT_EQ(
      plan_text("f32[8,8] @ mesh(dp=2,tp=2) {P(sum), P(sum)}", "{R, R}"), "all_reduce(dp,tp: P(sum),P(sum) -> R,R)");
  EXPECT_EQ(
      plan_text("f32[8,8] @ mesh(dp=2,tp=2) {P(sum), P(sum)}", "{S(0), S(1)}"),
      "reduce_scatter(dp,tp: P(sum),P(sum) -> S(0),S(1))");
}

TEST(Plan, ChangingTheShardOrderIsOneAllToAll) {
  EXPECT_EQ(
      plan_text("f32[8,8] @ mesh(dp=2,tp=4) {S(0), S(0)}", "{S(0)[1], S(0)[0]}"),
      "all_to_all(dp,tp: S(0)[0],S(0)[1] -> S(0)[1],S(0)[0])");
}

TEST(Plan, RemovingTheOuterShardTransfersTheInnerShardsToo) {
  EXPECT_EQ(
      plan_text("f32[8,8] @ mesh(dp=2,tp=4) {S(0), S(0)}", "{R, S(0)}"), "all_to_all(dp,tp: S(0),S(0) -> R,S(0))");
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=2,tp=4) {S(0), S(0)}", "{S(0), R}"), "all_gather(tp: S(0) -> R)");
}

TEST(Plan, ReducesWhatIsSmallerFirst) {
  EXPECT_EQ(
      plan_text("f32[800,800] @ mesh(dp=2,tp=2) {P(sum), R}", "{R, S(0)}"),
      "slice(tp: R -> S(0))\nall_reduce(dp: P(sum) -> R)");
}

TEST(Plan, ReplicasDivideALargeReductionBetweenThem) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=4,tp=2) {P(sum), R}", "{R, R}"), "all_reduce(dp: P(sum) -> R)");
  EXPECT_EQ(
      plan_text("f32[4096,4096] @ mesh(dp=4,tp=2) {P(sum), R}", "{R, R}"),
      "slice(tp: R -> S(0))\nall_reduce(dp: P(sum) -> R)\nall_gather(tp: S(0) -> R)");
}

TEST(Plan, SumsAndAveragesAreReducedTogether) {
  EXPECT_EQ(
      plan_text("f32[8,8] @ mesh(a=2,b=2,c=2) {P(avg), P(avg), P(sum)}", "{R, R, R}"),
      "all_reduce(a,b,c: P(avg),P(avg),P(sum) -> R,R,R)");
  EXPECT_EQ(
      plan_text("f32[8,8] @ mesh(a=2,b=2,c=2) {P(avg), P(avg), P(sum)}", "{S(0), S(0), S(0)}"),
      "reduce_scatter(a,b,c: P(avg),P(avg),P(sum) -> S(0),S(0),S(0))");
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=2,tp=2) {P(sum), P(avg)}", "{R, P(avg)}"), "all_reduce(dp: P(sum) -> R)");
}

TEST(Plan, APartialOfAnotherOpIsReducedFirst) {
  EXPECT_EQ(
      plan_text("f32[8,8] @ mesh(tp=2) {P(sum)}", "{P(max)}"),
      "all_reduce(tp: P(sum) -> R)\nmake_partial(tp: R -> P(max))");
}

TEST(Plan, APartialThatStaysIsNotReduced) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=2,tp=2) {P(sum), S(0)}", "{P(sum), R}"), "all_gather(tp: S(0) -> R)");
}

TEST(Plan, AMeshDimOfOneRankCostsNothing) {
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=1,tp=2) {S(0), R}", "{R, R}"), "slice(dp: S(0) -> R)");
  EXPECT_EQ(plan_text("f32[8,8] @ mesh(dp=1,tp=2) {P(sum), S(0)}", "{R, R}"), "all_gather(tp: S(0) -> R)");
}

TEST(Plan, RefusesWhatCannotBeDone) {
  EXPECT_EQ(
      error_text([] { plan_text("f32[8,8] @ mesh(tp=2) {S(0)}", "{P(sum)}"); }),
      "[plan] a shard cannot become a partial value, but got S(0) -> P(sum) on mesh dim tp (f32[8,8] @ mesh(tp=2) "
      "{S(0)} to {P(sum)}). Redistribute to R first.");
  EXPECT_EQ(
      error_text([] {
        plan(TensorSpec::parse("f32[8,8] @ mesh(tp=4) {S(0)}"), TensorSpec::parse("f32[8,8] @ mesh(tp=2) {S(0)}"));
      }),
      "[plan] source and target must be on the same mesh, but got f32[8,8] @ mesh(tp=4) {S(0)} and f32[8,8] @ "
      "mesh(tp=2) {S(0)}. To change the mesh, gather on the one and distribute on the other.");
  EXPECT_EQ(
      error_text([] {
        plan(TensorSpec::parse("f32[8,8] @ mesh(tp=2) {S(0)}"), TensorSpec::parse("f32[8,4] @ mesh(tp=2) {S(0)}"));
      }),
      "[plan] source and target must have the same shape and dtype, but got f32[8,8] @ mesh(tp=2) {S(0)} and "
      "f32[8,4] @ mesh(tp=2) {S(0)}. Redistributing changes only the placements.");
  EXPECT_EQ(
      error_text([] { plan_text("f32[8,8] @ mesh(tp=2) {S(0)}", "{S(2)}"); }),
      "[Placement] the dim of S(2) must be in [-2, 2) for a tensor of 2 dims, but got 2. Shard a dim that the tensor "
      "has.");
}

/// The cheapest path by exhaustive search: every layout may be a node, every legal step an edge.
class ExhaustiveSearch {
 public:
  ExhaustiveSearch(const TensorSpec& spec, std::vector<Layout> layouts)
      : spec_(spec), links_(LinkModel::for_mesh(spec.mesh())), layouts_(std::move(layouts)) {
    for (size_t from = 0; from < layouts_.size(); ++from) {
      for (size_t to = 0; to < layouts_.size(); ++to) {
        if (const auto step = edge(layouts_[from], layouts_[to])) {
          edges_[from].emplace_back(to, cost(*step, context()));
        }
      }
    }
  }

  std::vector<double> distances_from(size_t source) const {
    std::vector<double> distance(layouts_.size(), std::numeric_limits<double>::infinity());
    std::vector<bool> closed(layouts_.size(), false);
    distance[source] = 0;
    for (size_t round = 0; round < layouts_.size(); ++round) {
      size_t best = layouts_.size();
      for (size_t i = 0; i < layouts_.size(); ++i) {
        if (!closed[i] && (best == layouts_.size() || distance[i] < distance[best])) {
          best = i;
        }
      }
      closed[best] = true;
      const auto found = edges_.find(best);
      for (const auto& [to, seconds] : found == edges_.end() ? std::vector<Edge>() : found->second) {
        distance[to] = std::min(distance[to], distance[best] + seconds);
      }
    }
    return distance;
  }

 private:
  using Edge = std::pair<size_t, double>;

  CostContext context() const {
    return {spec_.sizes(), static_cast<int64_t>(c10::elementSize(spec_.dtype())), spec_.mesh().shape(), links_};
  }

  /// The step from one layout to another, if a single step can do it.
  std::optional<Step> edge(const Layout& from, const Layout& to) const {
    MeshDims changed;
    bool reduces = true;
    bool becomes_partial = true;
    bool transfers = true;
    for (int64_t m = 0; m < from.ndim(); ++m) {
      if (from[m] == to[m] && from.shard_position(m) == to.shard_position(m)) {
        continue;
      }
      changed.push_back(m);
      reduces = reduces && from[m].is_partial() && !to[m].is_partial() && to[m].is_shard() == to[changed[0]].is_shard();
      becomes_partial = becomes_partial && from[m].is_replicate() && to[m].is_partial();
      transfers = transfers && !from[m].is_partial() && !to[m].is_partial();
    }
    if (changed.empty()) {
      return std::nullopt;
    }
    if (reduces) {
      return reduction(from, to, changed);
    }
    if (becomes_partial) {
      return Step{StepKind::MakePartial, changed, from, to};
    }
    return transfers ? std::optional(redistribute_step(from, to, spec_.mesh().shape(), spec_.dim())) : std::nullopt;
  }

  /// Scattering adds shards after the existing ones in the shard order.
  std::optional<Step> reduction(const Layout& from, const Layout& to, const MeshDims& changed) const {
    if (to[changed[0]].is_replicate()) {
      return Step{StepKind::AllReduce, changed, from, to};
    }
    for (const auto m : changed) {
      for (const auto earlier : from.shard_order(to[m].dim())) {
        if (to.shard_position(earlier) > to.shard_position(m)) {
          return std::nullopt;
        }
      }
    }
    return Step{StepKind::ReduceScatter, changed, from, to};
  }

  const TensorSpec& spec_;
  LinkModel links_;
  std::vector<Layout> layouts_;
  std::map<size_t, std::vector<Edge>> edges_;
};

const std::vector<const char*> kMeshes = {"mesh(a=2)", "mesh(a=3)", "mesh(a=4)", "mesh(a=2,b=2)", "mesh(a=2,b=3)"};

class PlanOnEveryPair : public ::testing::TestWithParam<const char*> {};

std::vector<Layout> layouts_on(const DeviceMesh& mesh, int64_t tensor_ndim) {
  std::vector<Placement> placements = {Replicate(), Partial(), Partial(ReduceOp::Avg)};
  for (int64_t d = 0; d < tensor_ndim; ++d) {
    placements.push_back(Shard(d));
  }
  if (tensor_ndim > 0) {
    placements.push_back(StridedShard(0, 2));
  }
  return all_layouts(mesh.ndim(), tensor_ndim, placements);
}

TEST_P(PlanOnEveryPair, CostsNoMoreThanAnyPathAndNoDetourIsCheaper) {
  const auto mesh = DeviceMesh::parse(GetParam());
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{5, 3}, {2048, 1536}, {1, 7}, {}, {640, 7, 512}}) {
    const auto layouts = layouts_on(mesh, static_cast<int64_t>(sizes.size()));
    const auto any = TensorSpec::make(mesh, layouts[0], sizes, c10::kFloat);
    const ExhaustiveSearch exhaustive(*any, layouts);
    std::vector<std::vector<double>> costs;
    for (size_t a = 0; a < layouts.size(); ++a) {
      const auto shortest = exhaustive.distances_from(a);
      auto& row = costs.emplace_back(layouts.size(), std::numeric_limits<double>::infinity());
      for (size_t b = 0; b < layouts.size(); ++b) {
        if (is_refused(layouts[a], layouts[b])) {
          continue;
        }
        const auto found = plan(any->with(layouts[a]), any->with(layouts[b]));
        row[b] = cost(found);
        // Local steps that the redistribution plan merges count once there and twice here.
        EXPECT_LE(row[b], shortest[b] + 1e-12) << layouts[a] << " -> " << layouts[b] << "\n" << found.to_string();
      }
    }
    for (size_t a = 0; a < layouts.size(); ++a) {
      for (size_t b = 0; b < layouts.size(); ++b) {
        for (size_t c = 0; c < layouts.size(); ++c) {
          if (is_refused(layouts[a], layouts[c])) {
            continue;
          }
          EXPECT_LE(costs[a][c], costs[a][b] + costs[b][c] + 1e-12)
              << layouts[a] << " -> " << layouts[c] << " by way of " << layouts[b];
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, PlanOnEveryPair, ::testing::ValuesIn(kMeshes));

std::string one_line(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
    text.replace(at, 1, "; ");
  }
  return text;
}

std::string all_plans() {
  std::ostringstream out;
  for (const auto* mesh_text : kMeshes) {
    const auto mesh = DeviceMesh::parse(mesh_text);
    std::vector<Placement> placements = {Replicate(), Shard(0), Shard(1), StridedShard(0, 2), Partial()};
    if (mesh.ndim() == 1) {
      placements.push_back(Partial(ReduceOp::Max));
    }
    const auto layouts = all_layouts(mesh.ndim(), 2, placements);
    const auto any = TensorSpec::make(mesh, layouts[0], {5, 3}, c10::kFloat);
    for (const auto& source : layouts) {
      out << any->with(source)->to_string() << "\n";
      for (const auto& target : layouts) {
        const auto text = is_refused(source, target) ? std::string("refused")
                                                     : one_line(plan(any->with(source), any->with(target)).to_string());
        out << "  " << target << ": " << text << "\n";
      }
    }
  }
  return out.str();
}

TEST(Plan, EveryPairIsPlannedAsTheGoldenFileSays) {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "golden" / "plans.txt";
  const auto actual = all_plans();
  if (std::getenv("WEFT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << actual;
  }
  std::ifstream file(path);
  const std::string expected((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(actual, expected) << "If the change is wanted, run this test with WEFT_UPDATE_GOLDEN=1 and read the diff.";
}

TEST(Plan, DoesNotDependOnTheNumberOfRanks) {
  EXPECT_EQ(
      plan_text("f32[64,64,64] @ mesh(a=16,b=16,c=16) {S(0), S(1), S(2)}", "{R, R, R}"),
      plan_text("f32[64,64,64] @ mesh(a=2,b=2,c=2) {S(0), S(1), S(2)}", "{R, R, R}"));
}

} // namespace plan_test

} // namespace weft
