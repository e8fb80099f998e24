#include "weft/files/mapped_range.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace weft {

namespace mapped_range_test {

namespace fs = std::filesystem;

/// A file of three pages whose bytes are the numbers of their pages.
class MappedRangeTest : public ::testing::Test {
 protected:
  MappedRangeTest() : path_(fs::path(::testing::TempDir()) / "weft_mapped_range"), page_(::sysconf(_SC_PAGESIZE)) {
    std::ofstream(path_) << std::string(page_, '\1') << std::string(page_, '\2') << std::string(page_, '\3');
    file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~MappedRangeTest() override {
    ::close(file_);
    fs::remove(path_);
  }

  fs::path path_;
  uint64_t page_;
  int file_;
};

TEST_F(MappedRangeTest, HasTheBytesOfTheFile) {
  MappedRange range;
  EXPECT_FALSE(range.contains(0, 1));
  ASSERT_TRUE(range.map(file_, page_, 3 * page_));
  EXPECT_TRUE(range.contains(page_, 3 * page_));
  EXPECT_FALSE(range.contains(0, 2 * page_));
  EXPECT_EQ(*range.at(page_), 2);
  EXPECT_EQ(*range.at(3 * page_ - 1), 3);
  ASSERT_TRUE(range.map(file_, 0, page_));
  EXPECT_EQ(*range.at(0), 1);
  EXPECT_TRUE(range.is_intact());
}

TEST_F(MappedRangeTest, BytesThatTheFileHasNoLongerAreZeroAndTold) {
  MappedRange range;
  MappedRange other;
  ASSERT_TRUE(range.map(file_, 0, 3 * page_) && other.map(file_, 0, page_));
  fs::resize_file(path_, page_);
  EXPECT_EQ(*range.at(0), 1);
  EXPECT_TRUE(range.is_intact());
  EXPECT_EQ(*range.at(2 * page_), 0);
  EXPECT_FALSE(range.is_intact());
  EXPECT_TRUE(other.is_intact());
  ASSERT_TRUE(range.map(file_, 0, page_));
  EXPECT_TRUE(range.is_intact());
}

TEST_F(MappedRangeTest, EachThreadHasItsOwn) {
  fs::resize_file(path_, page_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        MappedRange range;
        ASSERT_TRUE(range.map(file_, 0, 3 * page_));
        EXPECT_EQ(*range.at(page_), 0);
        EXPECT_FALSE(range.is_intact());
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST_F(MappedRangeTest, WhatCannotBeMappedIsTold) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  MappedRange range;
  EXPECT_FALSE(range.map(pipes[0], 0, page_));
  EXPECT_FALSE(range.contains(0, 1));
  ::close(pipes[0]);
  ::close(pipes[1]);
}

TEST_F(MappedRangeTest, OtherMemoryEndsTheProgramAsBefore) {
  const auto read_other = [&] {
    const MappedRange range;
    auto* data = static_cast<char*>(::mmap(nullptr, 3 * page_, PROT_READ, MAP_SHARED, file_, 0));
    fs::resize_file(path_, page_);
    ::_exit(*static_cast<volatile char*>(data + 2 * page_));
  };
  EXPECT_EXIT(read_other(), ::testing::KilledBySignal(SIGBUS), "");
}

} // namespace mapped_range_test

} // namespace weft
