#include "weft/checkpoint/write_files.h"

#include "tests/support/error_text.h"
#include "weft/files/crc32c.h"
#include "weft/graph/deploy/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft {

namespace write_files_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

std::string new_folder(const std::string& name) {
  const auto path = fs::path(::testing::TempDir()) / ("weft_write_files_" + name);
  fs::remove_all(path);
  fs::create_directories(path);
  return path.string();
}

TEST(WriteFiles, AnySafetensorsReaderReadsThem) {
  const auto folder = new_folder("reader");
  const auto a = at::randn({3, 4}).t();
  const auto b = at::randn({5}).to(at::kBFloat16);
  const auto written = write_tensors({{"a", a}, {"b", b}}, {.folder = folder, .prefix = "x"});
  ASSERT_EQ(written.files.size(), 1u);
  EXPECT_EQ(written.files[0].name, "x_1.safetensors");
  EXPECT_EQ(written.files[0].bytes, fs::file_size(folder + "/x_1.safetensors"));
  const auto read = graph::read_safetensors(folder + "/x_1.safetensors");
  EXPECT_TRUE(at::equal(read.at("a"), a));
  EXPECT_TRUE(at::equal(read.at("b"), b));
  const auto bytes = a.contiguous();
  const auto checksum = crc32c({static_cast<const char*>(bytes.const_data_ptr()), 48});
  EXPECT_EQ(written.tensors[0].checksums->values, std::vector{checksum});
}

TEST(WriteFiles, HaveAtMostTheGivenSize) {
  const auto folder = new_folder("size");
  std::vector<WriteSource> sources;
  for (int i = 0; i < 5; ++i) {
    sources.push_back({c10::str("t", i), at::full({100}, 1.0 * i)});
  }
  const auto written = write_tensors(sources, {.folder = folder, .prefix = "x", .max_file_bytes = 800});
  EXPECT_EQ(written.files.size(), 3u);
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto file = folder + "/" + written.files[written.tensors[i].file].name;
    EXPECT_TRUE(at::equal(graph::read_safetensors(file).at(sources[i].name), sources[i].tensor));
  }
}

TEST(WriteFiles, EachChunkHasAChecksum) {
  const auto folder = new_folder("chunks");
  const auto tensor = at::randn({11, 1 << 20}); // 44 MB: several items, and chunks smaller than these
  for (const int64_t threads : {1, 2}) {
    const auto written = write_tensors({{"x", tensor}}, {.folder = folder, .prefix = "x", .threads = threads});
    const auto& checksums = *written.tensors[0].checksums;
    EXPECT_EQ(checksums.begin, written.tensors[0].begin);
    EXPECT_EQ(checksums.bytes, tensor.nbytes());
    EXPECT_EQ(checksums.chunk_bytes, uint64_t{512} << 10);
    ASSERT_EQ(checksums.values.size(), 88u);
    const std::string_view bytes(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    for (size_t i = 0; i < checksums.values.size(); ++i) {
      ASSERT_EQ(checksums.values[i], crc32c(bytes.substr(i * checksums.chunk_bytes, checksums.chunk_bytes))) << i;
    }
  }
}

TEST(WriteFiles, ManyTensorsAreWrittenTogether) {
  const auto folder = new_folder("many");
  std::vector<WriteSource> sources;
  for (int64_t i = 0; i < 3000; ++i) {
    const auto tensor = at::arange(1 + i * i % 4001) + static_cast<double>(i);
    sources.push_back(
        {c10::str("t", i), i % 700 == 3 ? at::stack({tensor, tensor}).t() : tensor}); // some have to be copied
  }
  for (const int64_t threads : {1, 2}) {
    const auto written =
        write_tensors(sources, {.folder = folder, .prefix = c10::str("m", threads), .threads = threads});
    const auto read = graph::read_safetensors(folder + "/" + written.files[0].name);
    for (size_t i = 0; i < sources.size(); ++i) {
      const auto bytes = sources[i].tensor.contiguous();
      ASSERT_TRUE(at::equal(read.at(sources[i].name), bytes)) << i;
      ASSERT_EQ(
          written.tensors[i].checksums->values[0],
          crc32c({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}));
    }
  }
}

TEST(WriteFiles, BlocksOfOneTensorAreInFilesOfTheirOwn) {
  const auto folder = new_folder("blocks");
  const auto written = write_tensors(
      {{"x", at::ones({2})}, {"y", at::ones({1})}, {"x", at::zeros({2})}}, {.folder = folder, .prefix = "b"});
  ASSERT_EQ(written.files.size(), 2u);
  EXPECT_NE(written.tensors[0].file, written.tensors[2].file);
}

TEST(WriteFiles, NewFoldersAreMadeOrSayWhyNot) {
  const auto folder = new_folder("folders");
  make_synced_folder(folder + "/a/b/../c");
  EXPECT_TRUE(fs::is_directory(folder + "/a/c"));
  make_synced_folder(folder);
  std::ofstream(folder + "/file") << "x";
  expect_contains(
      error_text<c10::ValueError>([&] { make_synced_folder(folder + "/file/x", "there"); }),
      "[there] " + folder + "/file/x: a folder is required, but it cannot be made: ");
}

TEST(WriteFiles, ComplexDoublesAreDoubles) {
  const auto folder = new_folder("complex");
  const auto z = at::randn({3}, at::kComplexDouble);
  write_tensors({{"z", z}, {"conj", z.conj()}}, {.folder = folder, .prefix = "x"});
  const auto read = graph::read_safetensors(folder + "/x_1.safetensors");
  EXPECT_TRUE(at::equal(at::view_as_complex(read.at("z")), z));
  EXPECT_TRUE(at::equal(at::view_as_complex(read.at("conj")), z.conj()));
}

TEST(WriteFiles, AnErrorLeavesNothingBehind) {
  const auto folder = new_folder("error");
  const auto quantized = at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8);
  const auto text = error_text<c10::TypeError>(
      [&] { write_tensors({{"a", at::ones({2})}, {"q", quantized}}, {.folder = folder, .prefix = "x"}); });
  expect_contains(text, "[save] tensor 'q' must be of a dtype that safetensors files have, but got QInt8");
  EXPECT_TRUE(fs::is_empty(folder));
  expect_contains(
      error_text<c10::ValueError>(
          [&] { write_tensors({{"a", at::ones({2})}}, {.folder = "/no/such", .prefix = "x"}); }),
      "[save] /no/such/x_1.safetensors: cannot be created: No such file or directory.");
}

TEST(WriteFiles, AFullDiskIsAnErrorAndLeavesNothingBehind) {
  const auto folder = new_folder("full");
  // A limit on the size of files stands in for a full disk: both are errors of the write.
  std::vector<WriteSource> sources = {{"a", at::ones({100})}};
  fs::create_symlink("/dev/full", folder + "/x_1.safetensors.part");
  expect_contains(
      error_text<c10::ValueError>([&] { write_tensors(sources, {.folder = folder, .prefix = "x"}); }),
      "x_1.safetensors: cannot be written: No space left on device.");
  EXPECT_TRUE(fs::is_empty(folder));
}

} // namespace write_files_test

} // namespace weft
