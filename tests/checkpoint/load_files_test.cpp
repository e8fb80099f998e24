#include "weft/checkpoint/load_files.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/save_files.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace weft {

namespace load_files_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

StoredTensors stored(const std::string& name, const std::map<std::string, at::Tensor>& tensors) {
  const auto folder = (fs::path(::testing::TempDir()) / ("weft_load_files_" + name)).string();
  fs::remove_all(folder);
  LocalState state;
  for (const auto& [key, tensor] : tensors) {
    state.tensors[key] = {tensor, nullptr};
  }
  save_files(state, folder, RankTexts{DeviceMesh()}, {});
  return load_manifest(folder, "load").stored;
}

TEST(LoadFiles, SaysWhatDoesNotFit) {
  const auto files = stored("fit", {{"a", at::ones({2, 3})}, {"n", at::ones({2}, at::kLong)}});
  const auto error_of = [&](const std::string& name, const at::Tensor& tensor) {
    return error_text([&] { load_files(files, {{name, {tensor, nullptr}}}, {}); });
  };
  expect_contains(error_of("b", at::ones({2})), "it lacks 'b'. Is it the checkpoint of another model?");
  expect_contains(
      error_of("a", at::ones({3, 2})), "[load] 'a' must have the shape [2, 3] that it was saved with, but got [3, 2].");
  expect_contains(
      error_of("a", at::ones({2, 3}, at::kLong)),
      "must have a dtype that holds Float, as which it was saved, but got Long.");
  const auto converted = at::zeros({2}, at::kHalf);
  load_files(files, {{"n", {converted, nullptr}}}, {});
  EXPECT_TRUE(at::equal(converted, at::ones({2}, at::kHalf)));
}

TEST(LoadFiles, ListsAtMostAFewMissingNames) {
  const auto files = stored("missing", {{"a", at::ones({2})}});
  std::map<std::string, LocalTensor> wanted;
  for (int i = 0; i < 12; ++i) {
    wanted[c10::str("x", 10 + i)] = {at::ones({1}), nullptr};
  }
  expect_contains(error_text<c10::ValueError>([&] { load_files(files, wanted, {}); }), "'x16', 'x17', and 4 more.");
}

TEST(LoadFiles, OneOfSeveralHoldersReadsAndSends) {
  const auto global = at::randn({8, 6});
  const auto files = stored("broadcast", {{"a", global}});
  run_on_ranks(4, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    const auto spec = TensorSpec::make(mesh, {Replicate(), Shard(1)}, {8, 6}, at::kFloat);
    const auto local = at::zeros({8, 3});
    const auto report = load_files(files, {{"a", {local, spec}}}, {.broadcast = true});
    EXPECT_EQ(report.wanted_bytes, rank < 2 ? local.nbytes() : 0);
    EXPECT_TRUE(at::equal(local, global.narrow(1, 3 * (rank % 2), 3)));
  });
}

} // namespace load_files_test

} // namespace weft
