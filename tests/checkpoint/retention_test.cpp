#include "weft/checkpoint/retention.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft {

namespace retention_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

constexpr const char* kData = "0123456789abcdef_rank0_1.safetensors";

std::string new_folder(const std::string& name) {
  const auto path = fs::path(::testing::TempDir()) / ("weft_retention_" + name);
  fs::remove_all(path);
  fs::create_directories(path);
  return path.string();
}

void write_checkpoint(const std::string& folder, int64_t saved) {
  fs::create_directories(folder);
  std::ofstream(folder + "/" + kData) << "x";
  write_text_file(
      folder + "/" + kManifestFile,
      manifest_text({.folder = folder, .files = {{kData, 1}}, .tensors = {}, .values = {}}, saved));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Retention, RemovesTheOldestOfTheSameName) {
  const auto run = new_folder("oldest");
  for (int64_t i = 1; i <= 4; ++i) {
    write_checkpoint(c10::str(run, "/step_", i), 10 - i); // step_4 is the oldest
  }
  write_checkpoint(run + "/best_1", 0);
  write_checkpoint(run + "/step_", 0);
  write_checkpoint(run + "/step_9", 20);
  remove_older_checkpoints(run + "/step_9/", 3);
  EXPECT_EQ(names_in(run), (std::vector<std::string>{"best_1", "step_", "step_1", "step_2", "step_9"}));
  remove_older_checkpoints(run + "/step_9", 0);
  EXPECT_EQ(names_in(run).size(), 5u);
}

TEST(Retention, LeavesNewerCheckpointsAndWhatLinksLeadTo) {
  const auto run = new_folder("links");
  const auto elsewhere = new_folder("elsewhere");
  write_checkpoint(elsewhere + "/step_0", 0);
  fs::create_directory_symlink(elsewhere + "/step_0", run + "/step_0");
  write_checkpoint(run + "/step_1", 1);
  write_checkpoint(run + "/step_2", 5);
  write_checkpoint(run + "/step_3", 9); // by another clock
  remove_older_checkpoints(run + "/step_2", 1);
  EXPECT_EQ(names_in(run), (std::vector<std::string>{"step_0", "step_2", "step_3"}));
  EXPECT_EQ(names_in(elsewhere + "/step_0"), (std::vector<std::string>{kData, kManifestFile}));
}

TEST(Retention, LeavesWhatIsNotCompleteOrNotItsOwn) {
  const auto run = new_folder("incomplete");
  fs::create_directories(run + "/step_1");
  std::ofstream(run + "/step_1/" + kData) << "x";
  write_checkpoint(run + "/step_2", 1);
  std::ofstream(run + "/step_2/notes.txt") << "mine";
  write_checkpoint(run + "/step_3", 2);
  fs::rename(run + "/step_3/" + kManifestFile, run + "/step_3/checkpoint.json.removed"); // interrupted
  write_checkpoint(run + "/step_4", 3);
  remove_older_checkpoints(run + "/step_4", 1);
  EXPECT_EQ(names_in(run), (std::vector<std::string>{"step_1", "step_2", "step_4"}));
  EXPECT_EQ(names_in(run + "/step_2"), std::vector<std::string>{"notes.txt"});
}

TEST(Retention, NeedsANumber) {
  check_is_numbered("run/step_100");
  expect_contains(
      error_text<c10::ValueError>([] { check_is_numbered("run/last"); }),
      "[save] with keep_last the folder's name must end with a number, as step_100 does, but got last.");
}

TEST(Retention, RemovesFilesThatTheManifestDoesNotName) {
  const auto folder = new_folder("unnamed");
  write_checkpoint(folder, 1);
  std::ofstream(folder + "/fedcba9876543210_rank3_2.safetensors.part") << "x";
  std::ofstream(folder + "/fedcba9876543210_rank0_1.safetensors") << "x";
  std::ofstream(folder + "/model.safetensors") << "x";
  remove_unnamed_files(load_manifest(folder, "load").stored);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{kData, kManifestFile, "model.safetensors"}));
}

TEST(Retention, FindsTheLatest) {
  const auto run = new_folder("latest");
  EXPECT_EQ(latest_checkpoint(run), std::nullopt);
  EXPECT_EQ(latest_checkpoint(run + "/none"), std::nullopt);
  write_checkpoint(run + "/step_10", 5);
  write_checkpoint(run + "/step_9", 7);
  fs::create_directories(run + "/step_11");
  EXPECT_EQ(latest_checkpoint(run), run + "/step_9");
}

} // namespace retention_test

} // namespace weft
