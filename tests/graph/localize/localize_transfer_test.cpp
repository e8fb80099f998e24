#include "tests/support/error_text.h"
#include "tests/support/sharded_run.h"
#include "weft/graph/localize/localize_step.h"

namespace weft::graph {

namespace localize_transfer_test {
using namespace weft::testing;

/// Runs a program that redistributes its input from one layout to another, and compares the result with the input.
ShardedRun moved(const std::string& type, const std::string& mesh, const char* from, const char* to) {
  TensorParallelOptions options;
  options.inputs.emplace("x", Layout::parse(from));
  options.outputs.emplace(0, Layout::parse(to));
  return expect_same_sharded(
      "program\ninput %x: " + type + " = user\n  %y: " + type + " = aten::alias(%x)\noutput %y = user\n", mesh, {},
      options);
}

TEST(LocalizeTransfer, UnevenBlocksAreSentToTheRanksThatLackThem) {
  // A dim of size 7 has two uneven blocks, which cannot be viewed as a dim of their own.
  expect_contains(moved("f32[7,3]", "tp=3", "{SS(0,2)}", "{R}").of_rank[2], "_c10d_functional::all_to_all_single");
  moved("f32[7,3]", "tp=3", "{R}", "{S(1)}");
  // The first mesh dim of the shard order is gathered, so that the shards of the second one change too.
  moved("f32[7,3]", "dp=2,tp=2", "{S(0), S(0)}", "{R, S(0)}");
  moved("f32[7,3]", "dp=2,tp=3", "{S(0)[1], S(0)[0]}", "{S(0), S(1)}");
}

} // namespace localize_transfer_test

} // namespace weft::graph
