#include "weft/checkpoint/read_files.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/write_files.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft {

namespace read_files_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

/// A tensor whose rows are divided between parts of a file each.
struct Stored {
  StoredTensors all;
  at::Tensor global;

  Stored(const std::string& name, const at::Tensor& tensor, int64_t parts) : global(tensor) {
    const auto folder = fs::path(::testing::TempDir()) / ("weft_read_files_" + name);
    fs::remove_all(folder);
    fs::create_directories(folder);
    all.folder = folder.string();
    StoredTensor stored{.dtype = tensor.scalar_type(), .sizes = c10::DimVector(tensor.sizes()), .parts = {}};
    for (int64_t i = 0; i < parts; ++i) {
      const auto rows = chunk(tensor.size(0), parts, i);
      const auto part = tensor.narrow(0, rows.begin, rows.length).contiguous();
      const auto written = write_tensors({{"x", part}}, {.folder = all.folder, .prefix = c10::str("p", i)});
      auto index = full_block(tensor.sizes());
      index[0] = {rows};
      stored.parts.push_back(
          {all.files.size(), written.tensors[0].begin, index, c10::DimVector(part.strides()),
           written.tensors[0].checksums});
      all.files.push_back(written.files[0]);
    }
    all.tensors["x"] = stored;
  }

  ReadReport read(const at::Tensor& local, const BlockIndex& wanted, const ReadSettings& settings = {}) const {
    return read_tensors(
        all, {{.name = "x", .stored = &all.tensors.at("x"), .wanted = wanted, .local = local}}, settings);
  }
};

TEST(ReadFiles, RowsAreReadWithoutAnythingElse) {
  const Stored stored("rows", at::randn({1000, 300}), 3);
  const auto local = at::empty({500, 300});
  const auto report = stored.read(local, {{{250, 500}}, {{0, 300}}}, {.verify = false});
  EXPECT_TRUE(at::equal(local, stored.global.narrow(0, 250, 500)));
  EXPECT_EQ(report.wanted_bytes, local.nbytes());
  EXPECT_EQ(report.read_bytes, local.nbytes());
}

TEST(ReadFiles, ColumnsTakeAtMostTwiceTheirBytes) {
  for (const int64_t columns : {1, 2, 7, 100, 2000, 3999, 4000}) {
    const Stored stored("columns", at::randn({300, 4000}), 2);
    const auto local = at::empty({300, columns});
    const auto report = stored.read(local, {{{0, 300}}, {{4000 - columns, columns}}}, {.verify = false});
    EXPECT_TRUE(at::equal(local, stored.global.narrow(1, 4000 - columns, columns)));
    EXPECT_LE(report.read_bytes, 2 * report.wanted_bytes) << columns;
    EXPECT_EQ(report.wanted_bytes, local.nbytes());
  }
}

TEST(ReadFiles, StridedShardsTakeAtMostTwiceTheirBytes) {
  const Stored stored("strided", at::randn({64, 1024}), 2);
  Runs runs;
  for (int64_t i = 0; i < 1024; i += 4) {
    runs.push_back({i, 2});
  }
  const auto local = at::empty({64, 512});
  const auto report = stored.read(local, {{{0, 64}}, runs}, {.verify = false});
  EXPECT_TRUE(at::equal(local, stored.global.view({64, 256, 4}).narrow(2, 0, 2).reshape({64, 512})));
  EXPECT_LE(report.read_bytes, 2 * report.wanted_bytes);
}

TEST(ReadFiles, TensorsLargerThanAnItemAreComplete) {
  const Stored stored("large", at::randn({5, 3, 1 << 20}), 2); // 60 MB
  const auto local = at::empty({5, 3, 1 << 20});
  stored.read(local, full_block(stored.global.sizes()));
  EXPECT_TRUE(at::equal(local, stored.global));
  const auto column = at::empty({5, 1, 1 << 19});
  stored.read(column, {{{0, 5}}, {{1, 1}}, {{1 << 19, 1 << 19}}});
  EXPECT_TRUE(at::equal(column, stored.global.narrow(1, 1, 1).narrow(2, 1 << 19, 1 << 19)));
}

TEST(ReadFiles, GoIntoTensorsOfAnyStridesAndDtypes) {
  const Stored stored("strides", at::randn({6, 4, 5}), 2);
  const auto whole = full_block({6, 4, 5});
  const auto strided = at::zeros({12, 4, 10}).slice(0, 0, 12, 2).slice(2, 0, 10, 2);
  stored.read(strided, whole);
  EXPECT_TRUE(at::equal(strided, stored.global));
  const auto transposed = at::zeros({5, 4, 6}).permute({2, 1, 0});
  stored.read(transposed, whole);
  EXPECT_TRUE(at::equal(transposed, stored.global));
  const auto converted = at::zeros({6, 4, 5}, at::kBFloat16);
  stored.read(converted, whole);
  EXPECT_TRUE(at::equal(converted, stored.global.to(at::kBFloat16)));
  const c10::InferenceMode mode;
  const auto inference = at::zeros({6, 4, 5}, at::kDouble);
  stored.read(inference, whole);
  EXPECT_TRUE(at::equal(inference, stored.global.to(at::kDouble)));
}

TEST(ReadFiles, ATransposedPartIsReadInTheOrderOfTheFile) {
  Stored stored("transposed", at::randn({40, 30}), 1);
  auto& tensor = stored.all.tensors["x"];
  std::swap(tensor.sizes[0], tensor.sizes[1]);
  std::swap(tensor.parts[0].index[0], tensor.parts[0].index[1]);
  std::swap(tensor.parts[0].strides[0], tensor.parts[0].strides[1]);
  const auto local = at::empty({10, 40});
  const auto report = stored.read(local, {{{5, 10}}, {{0, 40}}}, {.verify = false});
  EXPECT_TRUE(at::equal(local, stored.global.t().narrow(0, 5, 10)));
  EXPECT_LE(report.read_bytes, 2 * report.wanted_bytes);
}

TEST(ReadFiles, AFlippedByteIsAnErrorThatNamesFileAndTensor) {
  const Stored stored("flipped", at::randn({100, 30}), 2);
  const auto path = stored.all.path_of(1);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(stored.all.files[1].bytes) - 10);
    file.put(static_cast<char>(0x5a));
  }
  const auto local = at::empty({100, 30});
  const auto whole = full_block({100, 30});
  const auto text = error_text<c10::ValueError>([&] { stored.read(local, whole); });
  expect_contains(text, "[load] " + path + ": tensor 'x' must have the checksum ");
  expect_contains(text, ". The file was damaged; load another checkpoint.");
  stored.read(local, whole, {.verify = false});
  // Of ranks that read columns, one reads the rest of the rows too.
  int64_t found = 0;
  for (int64_t column = 0; column < 30; column += 3) {
    const auto columns = at::empty({100, 3});
    try {
      stored.read(columns, {{{0, 100}}, {{column, 3}}});
    } catch (const c10::ValueError& error) {
      expect_contains(error.what_without_backtrace(), "must have the checksum ");
      ++found;
    }
  }
  EXPECT_EQ(found, 1);
}

/// The ranks that want the blocks of a global tensor, each held by so many replicas: the bytes that they read together, and how many of
/// them find a byte that was changed at each of many places.
struct AllReads {
  uint64_t bytes = 0;
  uint64_t verified = 0;
};

AllReads read_by_all(const Stored& stored, const std::vector<BlockIndex>& blocks, int64_t replicas = 1) {
  AllReads all;
  for (const auto& block : blocks) {
    for (int64_t replica = 0; replica < replicas; ++replica) {
      const auto local = at::empty(block_shape(block));
      const ReadTarget target{"x", &stored.all.tensors.at("x"), block, local, replica, replicas};
      const auto report = read_tensors(stored.all, target, {});
      all.bytes += report.read_bytes + report.verified_bytes;
      all.verified += report.verified_bytes;
    }
  }
  return all;
}

/// Rows, or columns, of a matrix for so many ranks.
std::vector<BlockIndex> blocks_of(c10::IntArrayRef sizes, int64_t dim, int64_t count) {
  std::vector<BlockIndex> blocks;
  for (int64_t i = 0; i < count; ++i) {
    blocks.push_back(full_block(sizes));
    blocks.back()[dim] = {chunk(sizes[dim], count, i)};
  }
  return blocks;
}

TEST(ReadFiles, RowsOfOtherRanksAreVerifiedWithFewMoreBytes) {
  const Stored stored("amplification", at::randn({6000, 1000}), 2);
  const auto bytes = stored.global.nbytes();
  for (const int64_t count : {1, 2, 3, 4}) {
    const auto all = read_by_all(stored, blocks_of({6000, 1000}, 0, count));
    EXPECT_LE(static_cast<double>(all.bytes), 1.05 * static_cast<double>(bytes)) << count;
    EXPECT_GE(all.bytes, bytes);
  }
  // Replicas read their own rows, and divide the chunks that none reads completely.
  const auto replicated = read_by_all(stored, blocks_of({6000, 1000}, 0, 3), 2);
  EXPECT_LE(static_cast<double>(replicated.bytes), 1.05 * 2 * static_cast<double>(bytes));
}

/// One rank reads all of a chunk, the others their rows of it.
TEST(ReadFiles, ColumnsAreVerifiedWithLessThanTwiceTheirBytes) {
  for (const int64_t columns : {64, 1024, 4096}) {
    const Stored stored("verified_columns", at::randn({1 << 20 >> 5, columns / 4}), 2);
    for (const int64_t count : {2, 4}) {
      const auto all = read_by_all(stored, blocks_of(stored.global.sizes(), 1, count));
      EXPECT_LE(all.bytes * count, (2 * count - 1) * stored.global.nbytes()) << columns << " by " << count;
    }
  }
}

TEST(ReadFiles, AChangedByteAnywhereIsFoundByOneOfTheRanks) {
  const Stored stored("anywhere", at::randn({600, 500}), 2);
  const auto path = stored.all.path_of(0);
  const auto bytes = stored.all.files[0].bytes;
  const auto begin = stored.all.tensors.at("x").parts[0].begin;
  for (uint64_t at = begin; at < bytes; at += bytes / 13) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto before = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(before ^ 0x10)).flush();
    for (const auto dim : {0, 1}) {
      for (const int64_t replicas : {1, 2}) {
        int64_t found = 0;
        for (const auto& block : blocks_of({600, 500}, dim, 3)) {
          for (int64_t replica = 0; replica < replicas; ++replica) {
            const ReadTarget target{"x",     &stored.all.tensors.at("x"), block, at::empty(block_shape(block)), replica,
                                    replicas};
            try {
              read_tensors(stored.all, target, {});
            } catch (const c10::ValueError&) {
              ++found;
            }
          }
        }
        EXPECT_GE(found, 1) << "byte " << at << ", dim " << dim << ", " << replicas << " replicas";
      }
    }
    file.seekp(static_cast<std::streamoff>(at));
    file.put(before);
  }
  EXPECT_EQ(read_by_all(stored, {full_block({600, 500})}).verified, 0u);
}

TEST(ReadFiles, AFileThatIsGoneOrCutShortIsAnError) {
  const Stored stored("cut", at::randn({100, 30}), 2);
  const auto path = stored.all.path_of(0);
  const auto local = at::empty({100, 30});
  fs::resize_file(path, fs::file_size(path) - 1);
  expect_contains(
      error_text<c10::ValueError>([&] { stored.read(local, full_block({100, 30})); }), "It was truncated, or replaced");
  fs::remove(path);
  expect_contains(
      error_text<c10::ValueError>([&] { stored.read(local, full_block({100, 30})); }),
      "[load] " + path + ": cannot be opened: No such file or directory.");
}

TEST(ReadFiles, BoolsAreZeroOrOne) {
  const Stored stored("bools", at::full({8}, 7, at::kByte), 1);
  auto all = stored.all;
  all.tensors["x"].dtype = at::kBool;
  const auto local = at::zeros({8}, at::kBool);
  read_tensors(all, {{.name = "x", .stored = &all.tensors.at("x"), .wanted = full_block({8}), .local = local}}, {});
  EXPECT_TRUE(at::equal(local.view(at::kByte), at::ones({8}, at::kByte)));
}

} // namespace read_files_test

} // namespace weft
