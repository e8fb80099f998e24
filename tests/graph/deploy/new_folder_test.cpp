#include "weft/graph/deploy/new_folder.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::graph {

namespace new_folder_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

class NewFolderTest : public ::testing::Test {
 protected:
  NewFolderTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~NewFolderTest() override {
    fs::remove_all(root_);
  }

  const std::string root_ = ::testing::TempDir() + "weft_new_folder";
  const std::string out_ = root_ + "/out";
};

TEST_F(NewFolderTest, ReplacesAnEarlierFolderWhenComplete) {
  NewFolder(out_).complete({});
  NewFolder folder(out_);
  std::ofstream(folder.path() + "/" + rank_file_name(1)) << "program";
  EXPECT_FALSE(fs::exists(out_ + "/rank_1.pt2"));
  folder.complete({});
  EXPECT_TRUE(fs::exists(out_ + "/rank_1.pt2"));
  EXPECT_TRUE(fs::exists(out_ + "/" + Manifest::kFile));
  EXPECT_FALSE(fs::exists(folder.path()));
}

TEST_F(NewFolderTest, LeavesNothingBehindIfItIsNotCompleted) {
  { NewFolder folder(out_); }
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(NewFolderTest, RefusesAFolderWithOtherFiles) {
  fs::create_directories(out_);
  std::ofstream(out_ + "/notes.txt") << "mine";
  expect_contains(error_text([&] { NewFolder folder(out_); }), "is not empty and has no weft.json. Name another.");
  EXPECT_TRUE(fs::exists(out_ + "/notes.txt"));
}

} // namespace new_folder_test

} // namespace weft::graph
