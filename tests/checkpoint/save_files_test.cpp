#include "weft/checkpoint/save_files.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/load_files.h"
#include "weft/checkpoint/manifest.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/files/folder_lock.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/fsuid.h>
#include <sys/resource.h>

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

TEST(SaveFiles, AValueThatCannotBeReadLeavesTheOldCheckpoint) {
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  expect_contains(
      error_of("deep", [&](int64_t /*rank*/) { return LocalState{.values = {{"deep", deep}}}; }),
      "at most 200 lists and objects inside of each other are required");
}

TEST(SaveFiles, AnErrorThatARankHadBeforeIsRaisedOnAll) {
  expect_contains(
      error_of(
          "before",
          [](int64_t rank) {
            auto state = plain("x", at::ones({2}));
            state.error = rank == 1 ? "[save] 'y' must have values." : "";
            return state;
          }),
      "[save] 'y' must have values. (on rank 1)");
}

TEST(SaveFiles, FilesThatRankZeroDoesNotSeeAreAnError) {
  const auto folder = new_path("seen");
  const auto other = new_path("unseen"); // as the same path on another host would be
  fs::create_directories(other);
  run_on_ranks(2, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto spec = TensorSpec::make(mesh, {Shard(0)}, {4}, at::kFloat);
    const LocalState state{.tensors = {{"x", {at::ones({2}), spec}}}};
    expect_contains(
        error_text<c10::ValueError>([&] { save_files(state, rank == 0 ? folder : other, texts(2), {}); }),
        "that rank 1 has written must be visible to rank 0, but No such file or directory. Save into a folder that all "
        "hosts share.");
  });
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_TRUE(fs::is_empty(other));
}

TEST(SaveFiles, AFullDiskLeavesTheOldCheckpoint) {
  const auto folder = new_path("full_disk");
  save_files(plain("old", at::ones({2})), folder, RankTexts{DeviceMesh()}, {});
  const auto names = std::distance(fs::directory_iterator(folder), {});
  // A limit on the size of files stands in for a full disk: both are errors of the write.
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit former = {};
  ::getrlimit(RLIMIT_FSIZE, &former);
  for (const rlim_t bytes : {0, 100, 600, 4000}) { // in the files of the ranks, or in the manifest
    std::vector<std::string> errors(2);
    run_on_ranks(2, [&](int64_t rank) {
      auto state = plain(std::string(2000, 'n'), at::ones({2}));
      const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
      const auto spec = TensorSpec::make(mesh, {Shard(0)}, {400}, at::kFloat);
      state.tensors["x"] = {at::ones({200}), spec};
      state.values["text"] = "\"" + std::string(2000, 'x') + "\"";
      const auto ranks = texts(2);
      ranks.all_gather("ready");
      const rlimit limit{bytes, former.rlim_max};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      errors[rank] = error_text<c10::ValueError>([&] { save_files(state, folder, ranks, {}); });
      ranks.all_gather("done");
    });
    ::setrlimit(RLIMIT_FSIZE, &former);
    EXPECT_EQ(errors[0], errors[1]);
    expect_contains(errors[0], "cannot be written: File too large.");
    EXPECT_TRUE(at::equal(loaded(folder, "old"), at::ones({2})));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), names) << bytes;
  }
  std::signal(SIGXFSZ, before);
}

TEST(SaveFiles, AFolderWithoutPermissionLeavesTheOldCheckpoint) {
  const auto folder = new_path("read_only");
  save_files(plain("old", at::ones({2})), folder, RankTexts{DeviceMesh()}, {});
  fs::permissions(folder, fs::perms{0555});
  std::vector<std::string> errors(2);
  run_on_ranks(2, [&](int64_t rank) {
    const auto before = ::setfsuid(65534); // of this thread alone; root may write anywhere
    errors[rank] = error_text<c10::ValueError>([&] { save_files(plain("x", at::ones({2})), folder, texts(2), {}); });
    ::setfsuid(before);
  });
  fs::permissions(folder, fs::perms::owner_all);
  EXPECT_EQ(errors[0], errors[1]);
  expect_contains(errors[0], "cannot be created: Permission denied.");
  EXPECT_TRUE(at::equal(loaded(folder, "old"), at::ones({2})));
}

TEST(SaveFiles, ATensorLargerThanAFileIsInSeveral) {
  const auto folder = new_path("several");
  const auto global = at::randn({7, 100});
  run_on_ranks(2, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto spec = TensorSpec::make(mesh, {Shard(0)}, {7, 100}, at::kFloat);
    const auto rows = chunk(7, 2, rank);
    save_files(
        {.tensors = {{"x", {global.narrow(0, rows.begin, rows.length), spec}}, {"y", {global}}}}, folder, texts(2),
        {.max_file_bytes = 1000});
  });
  const auto stored = load_manifest(folder, "load").stored;
  for (const auto& part : stored.tensors.at("x").parts) {
    EXPECT_LE(4 * block_numel(part.index), 1000);
  }
  EXPECT_EQ(stored.tensors.at("y").parts.size(), 4u);
  EXPECT_TRUE(at::equal(loaded(folder, "x"), global));
  EXPECT_TRUE(at::equal(loaded(folder, "y"), global));
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

TEST(SaveFiles, OfTwoAtOnceOneSavesAndTheOtherRaises) {
  const auto folder = new_path("two");
  std::vector<std::thread> programs;
  for (const int64_t program : {1, 2}) {
    programs.emplace_back([&, program] {
      for (int round = 0; round < 30; ++round) {
        LocalState state{.values = {{"program", std::to_string(program)}}};
        state.tensors["x"] = {at::full({50'000}, program, at::kLong), nullptr};
        state.tensors["y"] = {at::full({1000}, program, at::kLong), nullptr};
        try {
          save_files(state, folder, RankTexts{DeviceMesh()}, {.max_file_bytes = 100'000});
        } catch (const c10::ValueError& error) {
          expect_contains(error.what_without_backtrace(), folder + ": one program may save into a folder at a time");
        }
      }
    });
  }
  for (auto& program : programs) {
    program.join();
  }
  const auto last = std::stoll(load_manifest(folder, "load").stored.values.at("program"));
  EXPECT_TRUE(loaded(folder, "x").eq(last).all().item<bool>() && loaded(folder, "y").eq(last).all().item<bool>());
}

TEST(SaveFiles, DoesNotRemoveACheckpointThatAnotherProgramSavesInto) {
  const auto run = new_path("keep_locked");
  save_files(plain("x", at::zeros({3})), run + "/step_1", RankTexts{DeviceMesh()}, {});
  {
    const FolderLock other(run + "/step_1", "test");
    save_files(plain("x", at::ones({3})), run + "/step_2", RankTexts{DeviceMesh()}, {.keep_last = 1});
    EXPECT_TRUE(fs::exists(run + "/step_1/checkpoint.json"));
  }
  save_files(plain("x", at::ones({3})), run + "/step_3", RankTexts{DeviceMesh()}, {.keep_last = 1});
  EXPECT_FALSE(fs::exists(run + "/step_1"));
  EXPECT_FALSE(fs::exists(run + "/step_2"));
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
