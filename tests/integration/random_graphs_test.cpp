#include "tests/support/overlapped.h"
#include "tests/support/random_graph.h"
#include "tests/support/sharded_run.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace weft {

namespace random_graphs_test {
using namespace weft::testing;

/// WEFT_PROGRAM_SEED=<n> runs that program alone; WEFT_PROGRAMS=<n> that many.
std::pair<uint64_t, uint64_t> seeds() {
  if (const char* seed = std::getenv("WEFT_PROGRAM_SEED")) {
    return {std::stoull(seed), std::stoull(seed) + 1};
  }
  const char* count = std::getenv("WEFT_PROGRAMS");
  return {1, 1 + (count == nullptr ? 80 : std::stoull(count))};
}

/// Expects the same outputs of random programs on ranks as on one device; returns how many collectives overlap matmuls.
size_t expect_same(OverlapMode mode) {
  size_t fused = 0;
  const auto [first, last] = seeds();
  for (auto seed = first; seed < last; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto graph = random_graph(random, 4 + static_cast<int>(random() % 16));
    SCOPED_TRACE("WEFT_PROGRAM_SEED=" + std::to_string(seed) + "\n" + graph.to_string());
    try {
      const auto run =
          expect_same_sharded(graph.text, graph.mesh, graph.plan, graph.options, {}, overlap_options(mode));
      fused += std::count_if(
          run.decisions.begin(), run.decisions.end(), [](const auto& decision) { return decision.fused; });
    } catch (const c10::Error& error) {
      ADD_FAILURE() << error.what_without_backtrace();
    }
  }
  return fused;
}

TEST(RandomGraphs, GiveOnRanksWhatTheyGiveAlone) {
  EXPECT_EQ(expect_same(OverlapMode::Off), 0);
}

TEST(RandomGraphs, GiveTheSameWithCollectivesBesideMatmuls) {
  EXPECT_GT(expect_same(OverlapMode::Force), 0);
}

} // namespace random_graphs_test

} // namespace weft
