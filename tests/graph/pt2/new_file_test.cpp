#include "weft/graph/pt2/new_file.h"

#include "tests/support/error_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weft::graph {

namespace new_file_test {
namespace fs = std::filesystem;
using testing::error_text;

class NewFiles : public ::testing::Test {
 protected:
  NewFiles() {
    fs::create_directories(folder_);
  }
  ~NewFiles() override {
    fs::remove_all(folder_);
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_ = fs::path(::testing::TempDir()) / "weft_new_file_test";
};

TEST_F(NewFiles, AreThereWhenTheyAreComplete) {
  const auto path = (folder_ / "file").string();
  {
    NewFile file("test", path);
    file.write("one ", 4);
    file.write("two", 3);
    EXPECT_FALSE(fs::exists(path));
    file.complete();
  }
  EXPECT_EQ(text_of(path), "one two");
  EXPECT_EQ(count(), 1u);
}

TEST_F(NewFiles, LeaveNothingBehindOtherwise) {
  const auto path = (folder_ / "file").string();
  std::ofstream(path) << "before";
  {
    NewFile file("test", path);
    file.write("after", 5);
  }
  EXPECT_EQ(text_of(path), "before");
  EXPECT_EQ(count(), 1u);
}

TEST_F(NewFiles, ReplaceWhatALinkNamesAndNotTheLink) {
  fs::create_directories(folder_ / "there");
  const auto target = (folder_ / "there" / "file").string();
  const auto link = (folder_ / "link").string();
  for (const std::string text : {"first", "second"}) {
    fs::remove(link);
    fs::create_symlink(fs::path("there") / "file", link);
    NewFile file("test", link);
    file.write(text.data(), text.size());
    file.complete();
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(text_of(target), text);
  }
}

TEST_F(NewFiles, WriteIntoAPipeAndLeaveItOne) {
  const auto path = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  NewFile file("test", path);
  file.write("text", 4);
  file.complete();
  char text[5] = {};
  EXPECT_EQ(::read(reader, text, 4), 4);
  EXPECT_STREQ(text, "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(path));
  EXPECT_EQ(count(), 1u);
}

TEST_F(NewFiles, SayWhyTheyCannotBeMade) {
  const auto path = (folder_ / "none" / "file").string();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { NewFile("write_pt2", path); }),
      "[write_pt2] " + path + ": cannot be created: No such file or directory.");
}

} // namespace new_file_test

} // namespace weft::graph
