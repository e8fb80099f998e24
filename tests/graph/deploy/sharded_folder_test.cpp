#include "weft/graph/deploy/sharded_folder.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/global_run.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/ir/parse.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::graph {

namespace sharded_folder_test {
namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

class ShardedFolder : public ::testing::Test {
 protected:
  ShardedFolder() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ShardedFolder() override {
    fs::remove_all(root_);
  }

  /// A linear layer of two joint projections, whose local weight is not a view, and one that is sharded by columns.
  Program sharded(int64_t ranks) {
    auto program = parse_program(R"(program
      input %up: f32[12,4] = parameter "up.weight"
      input %down: f32[4,6] = parameter "down.weight"
      input %x: f32[3,4] = user
        %a: f32[3,12] = aten::linear(%x, %up)
        [%p: f32[3,6], %q: f32[3,6]] = aten::chunk(%a, 2, 1)
        %m: f32[3,6] = aten::mul.Tensor(%p, %q)
        %b: f32[3,4] = aten::linear(%m, %down)
      output %b = user)");
    program.tensors["up.weight"] = up_;
    program.tensors["down.weight"] = down_;
    nn::ShardedStyleOptions of_parts;
    of_parts.parts = 2;
    shard(program, analysis_mesh(c10::str("tp=", ranks)), {{"up", nn::colwise(of_parts)}, {"down", nn::rowwise()}});
    return program;
  }
  at::Tensor expected(const at::Tensor& x) const {
    const auto parts = at::linear(x, up_).chunk(2, 1);
    return at::linear(parts[0] * parts[1], down_);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      found.push_back(fs::relative(entry.path(), root_).string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  fs::path root_ = fs::path(::testing::TempDir()) / "weft_sharded_folder_test";
  std::string folder_ = (root_ / "out").string();
  at::Tensor up_ = at::arange(48).view({12, 4}).remainder(5).to(at::kFloat);
  at::Tensor down_ = at::arange(24).view({4, 6}).remainder(7).to(at::kFloat);
};

TEST_F(ShardedFolder, IsReadAndRunAsItWasWritten) {
  std::vector<double> progress;
  write_sharded(sharded(3), folder_, [&](double done) { progress.push_back(done); });
  EXPECT_EQ(
      names(),
      (std::vector<std::string>{"out", "out/rank_0.pt2", "out/rank_1.pt2", "out/rank_2.pt2", "out/weft.json"}));
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_DOUBLE_EQ(progress.back(), 1.0);
  const auto manifest = Manifest::load(folder_);
  std::vector<std::shared_ptr<const Program>> programs;
  for (int64_t rank = 0; rank < 3; ++rank) {
    programs.push_back(std::make_shared<const Program>(read_rank(folder_, manifest, rank)));
  }
  EXPECT_EQ(programs[1]->tensors.at("up.weight").sizes(), (c10::IntArrayRef{4, 4}));
  const auto x = at::arange(12).view({3, 4}).to(at::kFloat);
  EXPECT_TRUE(at::equal(run_on_threads(programs, manifest)->run({{"x", x}})[0], expected(x)));
}

TEST_F(ShardedFolder, WithAFileOfAnotherRankOrProgramRaises) {
  write_sharded(sharded(2), folder_);
  const auto manifest = Manifest::load(folder_);
  fs::copy_file(folder_ + "/rank_0.pt2", folder_ + "/rank_1.pt2", fs::copy_options::overwrite_existing);
  read_rank(folder_, manifest, 0);
  expect_contains(
      error_text<c10::ValueError>([&] { read_rank(folder_, manifest, 1); }),
      "out/rank_1.pt2: the program of the rank at place 1 that weft.json names is required, but the file is another "
      "one.");
}

TEST_F(ShardedFolder, WhoseWeightsWereChangedRaises) {
  write_sharded(sharded(2), folder_);
  const auto path = folder_ + "/rank_1.pt2";
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  auto bytes = text.str();
  const auto weight = at::slice(down_, 1, 3, 6).contiguous();
  const auto at = bytes.find(std::string(static_cast<const char*>(weight.const_data_ptr()), weight.nbytes()));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 7] ^= 4;
  std::ofstream(path, std::ios::binary) << bytes;
  expect_contains(
      error_text<c10::ValueError>([&] { read_rank(folder_, Manifest::load(folder_), 1); }), "the file is damaged.");
}

TEST_F(ShardedFolder, OnAFullDiskRaisesAndLeavesNothingBehind) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit former = {};
  ::getrlimit(RLIMIT_FSIZE, &former);
  for (const rlim_t bytes : {0, 100, 700, 2000}) {
    const rlimit limit{bytes, former.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto error = error_text<c10::ValueError>([&] { write_sharded(sharded(2), folder_); });
    ::setrlimit(RLIMIT_FSIZE, &former);
    expect_contains(error, "cannot be written: File too large.");
    EXPECT_TRUE(names().empty()) << bytes;
  }
  std::signal(SIGXFSZ, before);
}

TEST_F(ShardedFolder, ThatWasWrittenIsReplacedAndAnotherIsNot) {
  fs::create_directory(folder_);
  write_sharded(sharded(3), folder_ + "/");
  write_sharded(sharded(2), folder_);
  EXPECT_EQ(names().size(), 4u);
  std::ofstream(folder_ + "/mine") << "text";
  expect_contains(
      error_text<c10::ValueError>([&] { write_sharded(sharded(2), folder_); }),
      ": it would be replaced, but also holds mine. Move that away, or name another folder.");
  fs::remove(folder_ + "/weft.json");
  expect_contains(
      error_text<c10::ValueError>([&] { write_sharded(sharded(2), folder_); }),
      "it is not empty and has no weft.json.");
  EXPECT_EQ(names().size(), 4u);
}

TEST_F(ShardedFolder, MayBeNamedFromWhereOneIs) {
  const auto before = fs::current_path();
  fs::current_path(root_);
  write_sharded(sharded(2), "new");
  fs::current_path(before);
  EXPECT_EQ(names().size(), 4u);
}

TEST_F(ShardedFolder, LeavesNothingBehindWhenItFails) {
  EXPECT_THROW(
      write_sharded(
          sharded(2), folder_,
          [](double done) {
            if (done > 0.5) {
              throw std::runtime_error("enough");
            }
          }),
      std::runtime_error);
  EXPECT_TRUE(names().empty());
  expect_contains(
      error_text<c10::ValueError>([&] { write_sharded(sharded(2), folder_ + "/a/b"); }), " is none. Make it first.");
}

} // namespace sharded_folder_test

} // namespace weft::graph
