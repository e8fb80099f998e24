#include "weft/graph/passes/localize_step.h"

#include "tests/support/error_text.h"
#include "tests/support/move_programs.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/passes/localize.h"
#include "weft/graph/passes/shard.h"

#include <set>

namespace weft::graph {
namespace {

using namespace weft::testing;

/// Divides by nothing, has empty parts, has no elements, divides, has one dim, has none.
const std::vector<std::vector<int64_t>> kShapes = {{5, 3}, {1, 2}, {0, 3}, {6, 4}, {7}, {}};
const std::vector<std::string> kMeshes = {"mesh(a=2)", "mesh(a=3)", "mesh(a=4)", "mesh(a=2,b=2)", "mesh(a=2,b=3)"};

std::vector<Layout> possible_targets(const Layout& source, const std::vector<Layout>& layouts) {
  std::vector<Layout> targets;
  for (const auto& target : layouts) {
    if (!is_refused(source, target)) {
      targets.push_back(target);
    }
  }
  return targets;
}

class EveryMove : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryMove, LeavesEveryRankThePartThatTheTargetSays) {
  const auto mesh = DeviceMesh::parse(GetParam());
  for (const auto& shape : kShapes) {
    const auto rank_count = static_cast<int64_t>(shape.size());
    const auto layouts = all_layouts(mesh.ndim(), rank_count, all_placements(rank_count));
    const auto whole = numbered(shape);
    for (const auto& source : layouts) {
      const auto targets = possible_targets(source, layouts);
      const auto program = move_program(mesh, Sizes(shape.begin(), shape.end()), source, targets);
      verify(program);
      const auto results = run_moves(program, source, {whole}, [&](int64_t rank) { return localize(program, rank); });
      for (size_t i = 0; i < targets.size(); ++i) {
        expect_parts_of(whole, source, targets[i], results[0][i], mesh.shape());
        if (HasFatalFailure()) {
          return;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LocalizeStep, EveryMove, ::testing::ValuesIn(kMeshes));

} // namespace
} // namespace weft::graph
