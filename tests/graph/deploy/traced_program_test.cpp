#include "weft/graph/deploy/traced_program.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/new_folder.h"
#include "weft/graph/deploy/sharded_folder.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace weft::graph {

namespace traced_program_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

/// A program of one rank, which adds up its input over the group "7".
Program traced() {
  return parse_program(R"(program
    input %x: f32[2,3] = user
      %r: f32[2,3] = _c10d_functional::all_reduce(%x, "sum", "7")
      %w: f32[2,3] = _c10d_functional::wait_tensor(%r)
    output %w = user)");
}

class TracedProgram : public ::testing::Test {
 protected:
  TracedProgram() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    write_pt2(traced(), root_ + "/traced.pt2");
  }
  ~TracedProgram() override {
    fs::remove_all(root_);
  }

  const std::string root_ = ::testing::TempDir() + "weft_traced_program";
};

TEST_F(TracedProgram, GroupsGetTheNamesOfMeshDims) {
  const auto file = write_traced(root_ + "/traced.pt2", root_, 3, {{"7", "dp,tp"}, {"8", "dp"}});
  EXPECT_EQ(file.name, "rank_3.pt2");
  expect_contains(to_string(read_pt2(root_ + "/rank_3.pt2")), R"(all_reduce(%x, "sum", "dp,tp"))");
}

TEST_F(TracedProgram, AnUnknownGroupRaises) {
  expect_contains(
      error_text([&] { write_traced(root_ + "/traced.pt2", root_, 0, {{"8", "dp"}}); }),
      "_c10d_functional::all_reduce uses the group \"7\". Call collectives through distributed tensors.");
}

TEST_F(TracedProgram, TheManifestHasGlobalInputsAndOutputs) {
  const auto mesh = analysis_mesh("tp=2");
  NewFolder folder(root_ + "/out");
  std::vector<Manifest::RankFile> files;
  for (int64_t rank = 0; rank < 2; ++rank) {
    files.push_back(write_traced(root_ + "/traced.pt2", folder.path(), rank, {{"7", "tp"}}));
  }
  const auto sharded = TensorSpec::make(mesh, Layout({Shard(0)}), {4, 3}, at::kFloat);
  auto manifest = manifest_of_traced(folder.path() + "/rank_0.pt2", mesh, {sharded}, {nullptr});
  manifest.rank_files = files;
  folder.complete(manifest);

  const auto read = Manifest::load(root_ + "/out");
  EXPECT_EQ(read.inputs.at(0).name, "x");
  EXPECT_EQ(read.inputs[0].layout->to_string(), "{S(0)}");
  EXPECT_EQ(std::get<TensorType>(*read.inputs[0].type).sizes[0].number(), 4);
  EXPECT_EQ(read.outputs.at(0).layout->to_string(), "{R}");
  EXPECT_EQ(std::get<TensorType>(*read.outputs[0].type).sizes[0].number(), 2);
  EXPECT_NO_THROW(read_rank(root_ + "/out", read, 1));
}

} // namespace traced_program_test

} // namespace weft::graph
