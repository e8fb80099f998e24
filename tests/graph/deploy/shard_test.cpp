#include "weft/graph/deploy/shard.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::graph {

namespace shard_test {
using namespace weft::testing;

Program mlp() {
  return parse_program(R"(
program
symbol s0 = 4 in [2, 64]
input %up: f32[12,8] = parameter "up.weight"
input %down: f32[8,12] = parameter "down.weight"
input %x: f32[s0,8] = user
  %a: f32[s0,12] = aten::linear(%x, %up)
  %b: f32[s0,12] = aten::relu(%a)
  %unused: f32[s0,12] = aten::neg(%a)
  %c: f32[s0,8] = aten::linear(%b, %down)
output %c = user
)");
}

const nn::ParallelPlan kPlan = {{"up", nn::colwise()}, {"down", nn::rowwise()}};

TEST(Shard, APairOfLinearsIsOneAllReduceAndNothingUnusedIsLeft) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=4"), kPlan);
  verify(program);
  const std::string expected = R"~(program @ mesh(tp=4)
symbol s0 = 4 in [2, 64]
input %up: f32[12,8] {S(0)} = parameter "up.weight"
input %down: f32[8,12] {S(1)} = parameter "down.weight"
input %x: f32[s0,8] {R} = user
  %a: f32[s0,12] {S(1)} = aten::linear(%x, %up) because "by the rule ([a,b],[c,b])->([a,c]) sum={b} linear={0}{1}; parameters stay where they are"
  %b: f32[s0,12] {S(1)} = aten::relu(%a) because "by the rule ([a,b])->([a,b])"
  %c: f32[s0,8] {P(sum)} = aten::linear(%b, %down) because "by the rule ([a,b],[c,b])->([a,c]) sum={b} linear={0}{1}; parameters stay where they are"
  %all_reduce: f32[s0,8] {R} = all_reduce(%c, tp: {P(sum)} -> {R})
output %all_reduce = user
)~";
  EXPECT_EQ(to_string(program), expected);
}

TEST(Shard, EveryRankRunsTheSameCollectives) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=5"), kPlan);
  for (int64_t rank = 0; rank < 5; ++rank) {
    const auto own = program_of_rank(program, rank);
    verify(own);
    const auto text = to_string(own);
    expect_contains(text, "_c10d_functional::all_reduce(%c, \"sum\", \"tp\")");
    const std::string rows = rank < 4 ? "3" : "0"; // of twelve, three each, as torch.chunk does
    expect_contains(text, "input %up: f32[" + rows + ",8] = parameter");
  }
}

TEST(Shard, GroupsCanHaveOtherNames) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=2"), kPlan);
  expect_contains(
      to_string(program_of_rank(program, 1, {.group_names = {{"tp", "7"}}})),
      "_c10d_functional::all_reduce(%c, \"sum\", \"7\")");
}

TEST(Shard, AProgramIsShardedOnce) {
  auto program = mlp();
  shard(program, analysis_mesh("tp=2"), kPlan);
  expect_contains(
      error_text<c10::ValueError>([&] { shard(program, analysis_mesh("tp=2"), kPlan); }),
      "[tensor_parallel] a program that is not sharded is required, but it is, over mesh(tp=2)");
}

TEST(Shard, KeepsTheTextAfterEachPassIfAskedTo) {
  namespace fs = std::filesystem;
  const auto root = fs::path(::testing::TempDir()) / "weft_shard_test";
  fs::remove_all(root);
  const PassOptions passes{.verifies = true, .dump_folder = root / "passes"};
  auto program = mlp();
  shard(program, analysis_mesh("tp=2"), kPlan, {}, {}, passes);
  const auto own = program_of_rank(program, 1, {}, passes);
  std::map<std::string, std::string> texts;
  for (const auto& entry : fs::recursive_directory_iterator(passes.dump_folder)) {
    if (entry.is_regular_file()) {
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      EXPECT_EQ(to_string(parse_program(text.str())), text.str());
      texts[fs::relative(entry.path(), passes.dump_folder)] = text.str();
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, text] : texts) {
    names.push_back(name);
  }
  EXPECT_EQ(
      names,
      (std::vector<std::string>{
          "01_tensor_parallel.txt", "02_common_redistributions.txt", "03_dead_code.txt", "04_micro_pipeline.txt",
          "rank_1/01_localize.txt", "rank_1/02_bucket_collectives.txt", "rank_1/03_hoist_collectives.txt",
          "rank_1/04_dead_code.txt"}));
  expect_contains(texts["02_common_redistributions.txt"], "%unused");
  EXPECT_EQ(texts["03_dead_code.txt"].find("%unused"), std::string::npos);
  EXPECT_EQ(texts["04_micro_pipeline.txt"], to_string(program));
  EXPECT_EQ(texts["rank_1/04_dead_code.txt"], to_string(own));
  auto again = mlp();
  expect_contains(
      error_text<c10::ValueError>([&] { shard(again, analysis_mesh("tp=2"), kPlan, {}, {}, passes); }),
      "a new or empty folder is required for the texts of passes");
  EXPECT_FALSE(again.mesh); // no pass has run
  fs::remove_all(root);
}

TEST(Shard, BucketsNothingInAProgramThatWrites) {
  namespace fs = std::filesystem;
  const auto root = fs::path(::testing::TempDir()) / "weft_shard_writes_test";
  fs::remove_all(root);
  auto program = parse_program(R"(
program
input %b: f32[4] = buffer "b"
input %x: f32[4] = user
  %y: f32[4] = aten::add_.Tensor(%b, %x)
output %y = user
)");
  shard(program, analysis_mesh("tp=2"), {});
  program_of_rank(program, 0, {}, {.dump_folder = root});
  EXPECT_TRUE(fs::exists(root / "rank_0" / "01_localize.txt"));
  EXPECT_FALSE(fs::exists(root / "rank_0" / "02_bucket_collectives.txt"));
  EXPECT_TRUE(fs::exists(root / "rank_0" / "03_hoist_collectives.txt"));
  fs::remove_all(root);
}

} // namespace shard_test

} // namespace weft::graph
