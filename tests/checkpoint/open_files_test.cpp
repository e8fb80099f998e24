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

TEST(OpenFiles, AMappedFileThatIsTruncatedMeanwhileIsAnError) {
  StoredTensors stored{.folder = ::testing::TempDir(), .files = {{"weft_open_files_mapped", 10'000'000}}};
  for (const uint64_t left : {9'999'999, 9'000'000, 0}) {
    std::ofstream(stored.path_of(0)) << std::string(10'000'000, 'x');
    OpenFiles files(stored, "test");
    OpenFiles::Window window;
    for (uint64_t at = 0; at < 10'000'000; at += 4095) {
      const auto bytes = std::min<uint64_t>(4095, 10'000'000 - at);
      ASSERT_EQ(std::string(files.mapped(window, 0, at, bytes), bytes), std::string(bytes, 'x'));
    }
    files.check(window);
    fs::resize_file(stored.path_of(0), left);
    // Bytes of the last page are zero; those of others would end the program by a signal.
    EXPECT_NE(std::string(files.mapped(window, 0, 9'995'904, 4096), 4096), std::string(4096, 'x'));
    expect_contains(
        error_text<c10::ValueError>([&] { files.check(window); }),
        c10::str("a file of 10000000 bytes is required, but it has ", left, ". It was truncated, or replaced"));
  }
}

TEST(OpenFiles, BytesAfterTheEndAreNotMapped) {
  const StoredTensors stored{.folder = ::testing::TempDir(), .files = {{"weft_open_files_end", 100}}};
  std::ofstream(stored.path_of(0)) << std::string(100, 'x');
  OpenFiles files(stored, "test");
  OpenFiles::Window window;
  EXPECT_NE(files.mapped(window, 0, 60, 40), nullptr);
  EXPECT_EQ(files.mapped(window, 0, 60, 41), nullptr);
}

} // namespace open_files_test

} // namespace weft
