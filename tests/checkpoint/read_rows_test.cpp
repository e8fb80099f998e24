#include "weft/checkpoint/read_rows.h"

#include "weft/core/dense_strides.h"
#include "weft/files/crc32c.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include <sys/resource.h>
#include <unistd.h>

namespace weft {

namespace read_rows_test {

/// A file of random bytes, and boxes of it as one item.
class ReadRows : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 9'000'000;

  ReadRows() : text_(kBytes, ' '), stored_{.folder = ::testing::TempDir(), .files = {{"weft_read_rows", kBytes}}} {
    const auto random = at::randint(256, {static_cast<int64_t>(kBytes)}, at::kByte);
    std::memcpy(text_.data(), random.const_data_ptr(), kBytes);
    std::ofstream(stored_.path_of(0), std::ios::binary) << text_;
  }

  /// Bytes of the file from `begin` on, with these sizes and strides, and the ranges that are verified.
  static ReadItem item_of(
      uint64_t begin,
      const c10::DimVector& sizes,
      const c10::DimVector& strides,
      const std::vector<std::pair<uint64_t, uint64_t>>& verified) {
    ReadItem item{.box = {.begin = begin, .sizes = sizes, .strides = strides}, .begin = begin};
    item.box.target_offset.resize(sizes.size());
    item.bytes = box_extent(item.box, 1);
    for (const auto& [from, to] : verified) {
      item.chunks.push_back({.number = item.chunks.size(), .begin = from, .end = to});
    }
    return item;
  }

  /// Reads an item, and returns how many bytes were read.
  uint64_t check(ReadItem item) {
    OpenFiles files(stored_, "test");
    ThreadMemory memory;
    const auto strides = dense_strides(item.box.sizes);
    const auto read = at::zeros(item.box.sizes, at::kByte);
    const auto bytes =
        read_rows(files, 0, item, byte_rows(item.box, strides, 1), static_cast<char*>(read.mutable_data_ptr()), memory);
    const auto all = at::from_blob(text_.data() + item.box.begin, item.box.sizes, item.box.strides, at::kByte);
    EXPECT_TRUE(at::equal(read, all));
    for (const auto& chunk : item.chunks) {
      EXPECT_EQ(chunk.checksum, crc32c(std::string_view(text_).substr(chunk.begin, chunk.end - chunk.begin)));
    }
    return bytes;
  }

  std::string text_;
  StoredTensors stored_;
};

/// Chunks begin and end inside of rows, between them, before the first one and after the last one.
TEST_F(ReadRows, OfAnySizeWithAnyChunks) {
  for (const auto& [row, stride] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 3}, {7, 8}, {512, 2048}, {512, 30'000}, {8192, 16'384}, {70'000, 140'000}, {600'000, 1'400'000}}) {
    const auto count = std::min<int64_t>(6'000'000 / stride, 5000);
    const uint64_t begin = 1'000'003;
    const auto end = begin + static_cast<uint64_t>((count - 1) * stride + row);
    const auto middle = (begin + end) / 2 / 16 * 16;
    check(item_of(begin, {count, row}, {stride, 1}, {}));
    check(item_of(begin, {count, row}, {stride, 1}, {{begin - 1000, end + 1000}}));
    check(item_of(begin, {count, row}, {stride, 1}, {{begin, begin + 100}, {middle, middle + 100'000}}));
    check(item_of(
        begin, {count, row}, {stride, 1},
        {{begin - 500'000, begin - 400'000}, {begin - 3, middle - 5}, {middle - 5, middle}, {end - 1, end + 300'000}}));
  }
  // Rows in two dims, and one row.
  check(item_of(999, {40, 30, 20}, {5000, 100, 1}, {{0, 50'000}, {60'000, 60'016}}));
  check(item_of(999, {500'000}, {1}, {{0, 5000}, {65'536, 131'072}, {400'000, 800'000}}));
}

/// There is memory left for the rows, but not for a window of the file.
TEST_F(ReadRows, OfFilesThatCannotBeMapped) {
  const auto check_unmapped = [&] {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto most = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + (3 << 20);
    const rlimit limit = {.rlim_cur = most, .rlim_max = most};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
    OpenFiles files(stored_, "test");
    OpenFiles::Window window;
    ASSERT_EQ(files.mapped(window, 0, 0, 1), nullptr);
    check(item_of(1'000'003, {200, 512}, {2048, 1}, {{1'000'000, 1'100'000}, {1'200'016, 1'300'000}}));
    check(item_of(999, {40, 30, 20}, {5000, 100, 1}, {{0, 50'000}, {60'000, 60'016}}));
    std::_Exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(check_unmapped(), ::testing::ExitedWithCode(0), "");
}

TEST_F(ReadRows, ReadsEachByteOnce) {
  // 100 rows of 512 bytes. The first 32 rows are in a chunk that is verified.
  const auto item = item_of(4096, {100, 512}, {2048, 1}, {{4096, 4096 + 65'536}});
  EXPECT_EQ(check(item), 65'536u + 68u * 512);
  EXPECT_EQ(check(item_of(4096, {100, 512}, {2048, 1}, {})), 51'200u);
  // Rows that are far from each other, by a call each.
  EXPECT_EQ(check(item_of(4096, {50, 512}, {100'000, 1}, {})), 25'600u);
}

} // namespace read_rows_test

} // namespace weft
