#include "weft/checkpoint/open_files.h"

#include "tests/support/error_text.h"
#include "weft/files/share_work.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft {

namespace open_files_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

TEST(OpenFiles, AFewOfManyStayOpen) {
  const auto folder = fs::path(::testing::TempDir()) / "weft_open_files";
  fs::remove_all(folder);
  fs::create_directories(folder);
  StoredTensors stored{.folder = folder.string()};
  for (int i = 0; i < 300; ++i) {
    stored.files.push_back({c10::str("file_", 1000 + i), 9});
    std::ofstream(stored.path_of(i)) << "file_" << 1000 + i;
  }
  OpenFiles files(stored, "test");
  share_work(4, 3000, [&](const NextItem& next) {
    while (const auto i = next()) {
      const auto file = *i * 7 % 300;
      std::string text(4, ' ');
      files.read(file, 5, text.data(), 4);
      EXPECT_EQ(text, std::to_string(1000 + file));
      EXPECT_LE(files.count(), 64u);
    }
  });
  EXPECT_EQ(files.count(), 64u);
}

TEST(OpenFiles, SaysWhatIsWrongWithAFile) {
  const auto folder = ::testing::TempDir();
  const StoredTensors stored{.folder = folder, .files = {{"weft_open_files_none", 3}, {"weft_open_files_short", 3}}};
  std::ofstream(stored.path_of(1)) << "ab";
  OpenFiles files(stored, "test");
  char byte = 0;
  expect_contains(
      error_text<c10::ValueError>([&] { files.read(0, 0, &byte, 1); }),
      "[test] " + stored.path_of(0) + ": cannot be opened: No such file or directory.");
  expect_contains(
      error_text<c10::ValueError>([&] { files.read(1, 0, &byte, 1); }), "a file of 3 bytes is required, but it has 2.");
  std::ofstream(stored.path_of(1)) << "abc";
  expect_contains(
      error_text<c10::ValueError>([&] { files.read(1, 3, &byte, 1); }),
      "1 bytes at 3 are required, but it ends before.");
}

} // namespace open_files_test

} // namespace weft
