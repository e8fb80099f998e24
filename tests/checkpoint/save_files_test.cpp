#include "weft/checkpoint/save_files.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/load_files.h"
#include "weft/checkpoint/manifest.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft {

namespace save_files_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

std::string new_path(const std::string& name) {
  const auto path = fs::path(::testing::TempDir()) / ("weft_save_files_" + name);
  fs::remove_all(path);
  return path.string();
}

RankTexts texts(int64_t ranks) {
  return RankTexts(init_device_mesh("cpu", {ranks}, {"save"}));
}

LocalState plain(const std::string& name, const at::Tensor& tensor) {
  return {.tensors = {{name, {tensor, nullptr}}}, .values = {}};
}

at::Tensor loaded(const std::string& folder, const std::string& name) {
  const auto stored = load_manifest(folder, "load").stored;
  const auto& tensor = stored.tensors.at(name);
  const auto result = at::empty(tensor.sizes, at::TensorOptions(tensor.dtype));
  load_files(stored, {{name, {result, nullptr}}}, {});
  return result;
}

TEST(SaveFiles, RanksMayHaveDifferentTensors) {
  const auto folder = new_path("different");
  run_on_ranks(3, [&](int64_t rank) {
    LocalState state = plain(c10::str("of_", rank), at::full({4}, rank));
    state.values["step"] = "3";
    if (rank > 0) {
      const DeviceMesh mesh(current_world(), c10::kCPU, {2}, {1, 2}, {"tp"});
      state.tensors["w"] = {
          at::full({2}, 1.0 * static_cast<double>(rank)), TensorSpec::make(mesh, {Shard(0)}, {4}, at::kFloat)};
    }
    save_files(state, folder, texts(3), {});
  });
  EXPECT_TRUE(at::equal(loaded(folder, "of_2"), at::full({4}, 2).to(at::kLong)));
  EXPECT_TRUE(at::equal(loaded(folder, "w"), at::tensor({1.f, 1.f, 2.f, 2.f})));
  EXPECT_EQ(load_manifest(folder, "load").stored.values.at("step"), "3");
}

/// All ranks get the same error, and the checkpoint that was there stays.
std::string error_of(const std::string& name, const std::function<LocalState(int64_t rank)>& state_of) {
  const auto folder = new_path(name);
  save_files(plain("old", at::ones({2})), folder, RankTexts{DeviceMesh()}, {});
  const auto size = std::distance(fs::directory_iterator(folder), {});
  std::vector<std::string> errors(2);
  run_on_ranks(2, [&](int64_t rank) {
    errors[rank] = error_text<c10::ValueError>([&] { save_files(state_of(rank), folder, texts(2), {}); });
  });
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_TRUE(at::equal(loaded(folder, "old"), at::ones({2})));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), size) << name;
  return errors[0];
}

TEST(SaveFiles, AnErrorOfOneRankIsRaisedOnAllAndLeavesTheOldCheckpoint) {
  expect_contains(
      error_of("plain", [](int64_t rank) { return plain("x", at::full({3}, rank)); }),
      "[save] the plain tensor 'x' must have the same values on all ranks that have it, but those of ranks 0 and 1 "
      "differ.");
  expect_contains(
      error_of("shape", [](int64_t rank) { return plain("x", at::ones({3 + rank})); }),
      "[save] 'x' must be the same on all ranks that have it, but rank 0 has {\"dtype\":\"f32\",\"shape\":[3]} and "
      "rank 1 has");
  expect_contains(
      error_of(
          "dtype",
          [](int64_t rank) {
            auto state = plain("x", at::ones({3}));
            if (rank == 1) {
              state.tensors["q"] = {at::empty({2}, at::TensorOptions(at::kQInt8).device(at::kMeta)), nullptr};
            }
            return state;
          }),
      "(on rank 1)");
  expect_contains(
      error_of("value", [](int64_t rank) { return LocalState{.tensors = {}, .values = {{"step", c10::str(rank)}}}; }),
      "[save] the value 'step' must be the same on all ranks that have it, but it is 0 and, on rank 1, 1.");
  expect_contains(
      error_of(
          "partial",
          [](int64_t /*rank*/) {
            const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
            LocalState state;
            state.tensors["x"] = {at::ones({2}), TensorSpec::make(mesh, {Partial()}, {2}, at::kFloat)};
            return state;
          }),
      "[save] ranks must hold values and not terms of them, but got 'x'");
}

TEST(SaveFiles, AFolderOfOtherFilesIsNotWrittenInto) {
  const auto folder = new_path("other");
  fs::create_directories(folder);
  std::ofstream(folder + "/thesis.txt") << "x";
  const auto state = plain("x", at::ones({2}));
  expect_contains(
      error_text<c10::ValueError>([&] { save_files(state, folder, RankTexts{DeviceMesh()}, {}); }),
      "a new folder or a checkpoint is required, but it holds thesis.txt. Name another.");
  expect_contains(
      error_text<c10::ValueError>([&] { save_files(state, folder + "/thesis.txt", RankTexts{DeviceMesh()}, {}); }),
      "a folder is required, but it cannot be made");
  fs::remove(folder + "/thesis.txt");
  std::ofstream(folder + "/0123456789abcdef_rank7_1.safetensors.part") << "of a save that was killed";
  save_files(state, folder, RankTexts{DeviceMesh()}, {});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
}

TEST(SaveFiles, ASecondSaveReplacesTheFirst) {
  const auto folder = new_path("second");
  for (const auto value : {1, 2}) {
    run_on_ranks(2, [&](int64_t /*rank*/) { save_files(plain("x", at::full({3}, value)), folder, texts(2), {}); });
    EXPECT_TRUE(at::equal(loaded(folder, "x"), at::full({3}, value).to(at::kLong)));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
  }
}

TEST(SaveFiles, KeepsTheLastCheckpoints) {
  const auto run = new_path("keep");
  for (int64_t i = 1; i <= 5; ++i) {
    save_files(plain("x", at::full({3}, i)), c10::str(run, "/step_", i), RankTexts{DeviceMesh()}, {.keep_last = 2});
  }
  EXPECT_FALSE(fs::exists(run + "/step_3"));
  EXPECT_TRUE(fs::exists(run + "/step_4"));
  EXPECT_TRUE(fs::exists(run + "/step_5"));
}

} // namespace save_files_test

} // namespace weft
