#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "weft/checkpoint/async_saver.h"
#include "weft/checkpoint/load_files.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/retention.h"
#include "weft/checkpoint/save_files.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <csignal>
#include <filesystem>
#include <future>
#include <iostream>
#include <random>
#include <thread>

#include <unistd.h>

namespace weft {

namespace saving_faults_test {

using testing::run_process_ranks;
using testing::say;

/// Three ranks save again and again, into one folder or in the background into folders of which two are kept, until one of them, or all,
/// are killed at a random moment: what can be loaded then is the last checkpoint that was complete or the next one, and never a
/// mixture of both.
///
///   WEFT_FAULT_RUNS   runs of each kind (1)
///   WEFT_FAULT_JOBS   runs at the same time (1)
///   WEFT_FAULT_SEED   of the first run, the others count on; printed, and at random where none is given
constexpr int64_t kRanks = 3;
constexpr int64_t kRows = 40'000; // of each rank

int64_t number_of(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

/// Saves with the number of the step in every element.
void save_until_killed(bool kills_all, bool in_background) {
  std::mt19937_64 random(static_cast<uint64_t>(number_of("WEFT_FAULT_SEED", 0)));
  const auto delay = std::chrono::microseconds(random() % 300'000);
  const auto victim = static_cast<int64_t>(random() % kRanks);
  const std::string folder = std::getenv("WEFT_TEST_FOLDER");
  const auto world = testing::make_prompt_world();
  const DeviceMesh mesh(world, c10::kCPU, {kRanks}, {"tp"});
  const RankTexts texts(DeviceMesh(world, c10::kCPU, {kRanks}, {"save"}));
  const auto sharded = TensorSpec::make(mesh, {Shard(0)}, {kRanks * kRows, 16}, at::kFloat);
  const auto replicated = TensorSpec::make(mesh, {Replicate()}, {1000}, at::kLong);
  AsyncSaver saver(texts);
  for (int64_t step = 1;; ++step) {
    LocalState state{.values = {{"step", std::to_string(step)}}};
    state.tensors["sharded"] = {at::full({kRows, 16}, static_cast<double>(step)), sharded};
    state.tensors["replicated"] = {at::full({1000}, step, at::kLong), replicated};
    if (in_background) {
      saver.save(state, c10::str(folder, "/step_", step), {.max_file_bytes = 1 << 20, .keep_last = 2});
      state.tensors["sharded"].local.fill_(-1); // training goes on
      saver.wait();
    } else {
      save_files(state, folder, texts, {.max_file_bytes = 1 << 20});
    }
    say("saved ", step);
    if (step == 1 && (kills_all || world->rank() == victim)) {
      std::thread([delay] {
        std::this_thread::sleep_for(delay);
        kill(getpid(), SIGKILL);
      }).detach();
    }
  }
}

RANK_ROLE(saves_until_it_is_killed) {
  save_until_killed(false, false);
}

RANK_ROLE(saves_until_all_are_killed) {
  save_until_killed(true, false);
}

RANK_ROLE(saves_in_background_until_it_is_killed) {
  save_until_killed(false, true);
}

RANK_ROLE(saves_in_background_until_all_are_killed) {
  save_until_killed(true, true);
}

/// The step of the checkpoint in the folder; the test fails where its tensors are not all of that step.
int64_t loaded_step(const std::string& folder) {
  const auto stored = load_manifest(folder, "load").stored;
  const auto step = std::stoll(stored.values.at("step"));
  const auto sharded = at::zeros({kRanks * kRows, 16});
  const auto replicated = at::zeros({1000}, at::kLong);
  load_files(stored, {{"sharded", {sharded}}, {"replicated", {replicated}}}, {});
  EXPECT_TRUE(sharded.eq(step).all().item<bool>() && replicated.eq(step).all().item<bool>()) << "step " << step;
  return step;
}

int64_t last_saved(const std::vector<testing::Outcome>& ranks) {
  int64_t last = 0;
  for (const auto& rank : ranks) {
    while (rank.has_line(c10::str("saved ", last + 1))) {
      ++last;
    }
  }
  return last;
}

/// The folders in a run's folder that are checkpoints.
int64_t complete_checkpoints(const std::filesystem::path& folder) {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    count += std::filesystem::exists(entry.path() / kManifestFile) ? 1 : 0;
  }
  return count;
}

void run(const std::string& role, bool in_background, uint64_t seed) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / c10::str("weft_saving_faults_", role, "_", seed);
  std::filesystem::remove_all(folder);
  const auto ranks = run_process_ranks(
      role, kRanks,
      {.timeout = std::chrono::seconds(20),
       .deadline = std::chrono::seconds(180),
       .environment = {{"WEFT_FAULT_SEED", std::to_string(seed)}, {"WEFT_TEST_FOLDER", folder.string()}}});
  const auto last = last_saved(ranks);
  ASSERT_GE(last, 1) << describe(ranks);
  const auto latest = in_background ? latest_checkpoint(folder.string()) : folder.string();
  ASSERT_TRUE(latest.has_value()) << describe(ranks);
  const auto step = loaded_step(*latest);
  EXPECT_TRUE(step == last || step == last + 1) << "saved " << last << ", loaded " << step << ", seed " << seed;
  // The next program saves as if nothing had happened.
  const auto next = in_background ? c10::str(folder.string(), "/step_", step + 1) : folder.string();
  save_files({.values = {{"step", "0"}}}, next, RankTexts{DeviceMesh()}, {.keep_last = in_background ? 2 : 0});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(next), {}), 1);
  if (in_background) {
    EXPECT_EQ(latest_checkpoint(folder.string()), next);
    EXPECT_EQ(complete_checkpoints(folder), 2);
    EXPECT_EQ(loaded_step(*latest), step);
  }
  std::filesystem::remove_all(folder);
}

void run_often(const std::string& role, bool in_background = false) {
  const auto runs = number_of("WEFT_FAULT_RUNS", 1);
  const auto seed = number_of("WEFT_FAULT_SEED", std::random_device{}() % 1'000'000);
  std::cout << role << ": " << runs << " runs, seeds from " << seed << std::endl;
  std::atomic<int64_t> next = 0;
  std::vector<std::future<void>> workers;
  for (int64_t job = 0; job < number_of("WEFT_FAULT_JOBS", 1); ++job) {
    workers.push_back(std::async(std::launch::async, [&] {
      for (auto i = next++; i < runs; i = next++) {
        run(role, in_background, static_cast<uint64_t>(seed + i));
      }
    }));
  }
  for (auto& worker : workers) {
    worker.get();
  }
}

TEST(SavingFaults, ARankThatIsKilledLeavesACheckpoint) {
  run_often("saves_until_it_is_killed");
}

TEST(SavingFaults, AllRanksKilledLeaveACheckpoint) {
  run_often("saves_until_all_are_killed");
}

TEST(SavingFaults, InTheBackgroundARankThatIsKilledLeavesACheckpoint) {
  run_often("saves_in_background_until_it_is_killed", true);
}

TEST(SavingFaults, InTheBackgroundAllRanksKilledLeaveACheckpoint) {
  run_often("saves_in_background_until_all_are_killed", true);
}

} // namespace saving_faults_test

} // namespace weft
