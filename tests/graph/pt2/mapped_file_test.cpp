#include "weft/graph/pt2/mapped_file.h"

#include "tests/support/error_text.h"

#include <fstream>

#include <unistd.h>

namespace weft::graph {

namespace mapped_file_test {
using testing::error_text;
using testing::expect_contains;

class MappedFileTest : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unlink(path_.c_str());
  }
  void write(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }

  std::string path_ = ::testing::TempDir() + "mapped_file_test." + std::to_string(::getpid());
};

/// The number of bytes of files that this process has in memory.
int64_t resident_file_bytes() {
  int64_t total = 0;
  int64_t resident = 0;
  int64_t shared = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> shared;
  return shared * ::sysconf(_SC_PAGESIZE);
}

at::Tensor view_of(const std::shared_ptr<const MappedFile>& file) {
  const auto bytes = file->bytes();
  return at::from_blob(const_cast<char*>(bytes.data()), {static_cast<int64_t>(bytes.size())}, at::kByte);
}

TEST_F(MappedFileTest, HasTheBytesOfTheFile) {
  write("some bytes");
  const auto file = MappedFile::open(path_);
  EXPECT_EQ(file->bytes(), "some bytes");
  EXPECT_EQ(file->name(), path_);
  write("");
  EXPECT_EQ(MappedFile::open(path_)->bytes(), "");
}

TEST_F(MappedFileTest, WhatIsWrittenIntoItDoesNotReachTheFile) {
  write("some bytes");
  view_of(MappedFile::open(path_)).size(0);
  const auto file = MappedFile::open(path_);
  view_of(file).fill_(65);
  EXPECT_EQ(file->bytes(), "AAAAAAAAAA");
  EXPECT_EQ(MappedFile::open(path_)->bytes(), "some bytes");
}

TEST_F(MappedFileTest, MissingFilesAndFoldersAreNamed) {
  expect_contains(
      error_text<c10::ValueError>([] { MappedFile::open("/no/such/file.pt2"); }),
      "[read_pt2] /no/such/file.pt2: cannot be opened: No such file or directory.");
  expect_contains(error_text<c10::ValueError>([] { MappedFile::open("/tmp"); }), "/tmp: a file is required");
}

TEST_F(MappedFileTest, ReleasedPagesLeaveMemoryAndAreReadAgain) {
  constexpr int64_t kSize = 64 << 20;
  write(std::string(kSize, 'x'));
  const auto file = MappedFile::open(path_);
  const auto tensor = view_of(file);
  const auto before = resident_file_bytes();
  const auto sum = tensor.sum().item<int64_t>();
  EXPECT_GT(resident_file_bytes() - before, kSize / 2);
  release_pages(tensor);
  EXPECT_LT(resident_file_bytes() - before, kSize / 4);
  EXPECT_EQ(tensor.sum().item<int64_t>(), sum);
}

TEST_F(MappedFileTest, WhatWasWrittenIsNotReleased) {
  write(std::string(1 << 20, 'x'));
  const auto file = MappedFile::open(path_);
  const auto tensor = view_of(file);
  tensor.narrow(0, 0, 5000).fill_(1);
  release_pages(tensor);
  EXPECT_EQ(tensor[4500].item<int64_t>(), 1);
}

TEST_F(MappedFileTest, TensorsOfOtherMemoryStayAsTheyAre) {
  const auto tensor = at::ones({1 << 20});
  release_pages(tensor);
  release_pages(at::Tensor());
  EXPECT_EQ(tensor.sum().item<double>(), 1 << 20);
}

} // namespace mapped_file_test

} // namespace weft::graph
