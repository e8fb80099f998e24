#include "weft/checkpoint/load_files.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/save_files.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

namespace weft {

namespace load_files_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

StoredTensors stored(const std::string& name, const std::map<std::string, at::Tensor>& tensors) {
  const auto folder = (fs::path(::testing::TempDir()) / ("weft_load_files_" + name)).string();
  fs::remove_all(folder);
  LocalState state;
  for (const auto& [key, tensor] : tensors) {
    state.tensors[key] = {tensor, nullptr};
  }
  save_files(state, folder, RankTexts{DeviceMesh()}, {});
  return load_manifest(folder, "load").stored;
}

RankTexts texts(int64_t ranks) {
  return RankTexts(init_device_mesh("cpu", {ranks}, {"load"}));
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(LoadFiles, SaysWhatDoesNotFit) {
  const auto files = stored("fit", {{"a", at::ones({2, 3})}, {"n", at::ones({2}, at::kLong)}});
  const auto error_of = [&](const std::string& name, const at::Tensor& tensor) {
    return error_text([&] { load_files(files, {{name, {tensor, nullptr}}}, {}); });
  };
  expect_contains(error_of("b", at::ones({2})), "it lacks 'b'. Is it the checkpoint of another model?");
  expect_contains(
      error_of("a", at::ones({3, 2})), "[load] 'a' must have the shape [2, 3] that it was saved with, but got [3, 2].");
  expect_contains(
      error_of("a", at::ones({2, 3}, at::kLong)),
      "must have a dtype that holds Float, as which it was saved, but got Long.");
  const auto converted = at::zeros({2}, at::kHalf);
  load_files(files, {{"n", {converted, nullptr}}}, {});
  EXPECT_TRUE(at::equal(converted, at::ones({2}, at::kHalf)));
}

TEST(LoadFiles, ElementsThatShareMemoryAreNotLoaded) {
  const auto files = stored("expanded", {{"a", at::arange(3, at::kFloat)}});
  const auto expanded = at::zeros({1}).expand({3});
  expect_contains(
      error_text<c10::ValueError>([&] { load_files(files, {{"a", {expanded, nullptr}}}, {}); }),
      "[load] 'a' must have memory of its own for each element, but got strides [0]. Load into a clone of it.");
}

TEST(LoadFiles, ListsAtMostAFewMissingNames) {
  const auto files = stored("missing", {{"a", at::ones({2})}});
  std::map<std::string, LocalTensor> wanted;
  for (int i = 0; i < 12; ++i) {
    wanted[c10::str("x", 10 + i)] = {at::ones({1}), nullptr};
  }
  expect_contains(error_text<c10::ValueError>([&] { load_files(files, wanted, {}); }), "'x16', 'x17', and 4 more.");
}

TEST(LoadFiles, OneOfSeveralHoldersReadsAndSends) {
  const auto global = at::randn({8, 6});
  const auto files = stored("broadcast", {{"a", global}, {"b", global}});
  run_on_ranks(4, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    const auto spec = TensorSpec::make(mesh, {Replicate(), Shard(1)}, {8, 6}, at::kFloat);
    const auto local = at::zeros({8, 3});
    const auto plain = at::zeros({8, 6});
    const auto report = load_files(files, {{"a", {local, spec}}, {"b", {plain}}}, {.broadcast = true}, texts(4));
    EXPECT_EQ(report.wanted_bytes, (rank < 2 ? local.nbytes() : 0) + (rank == 0 ? plain.nbytes() : 0));
    EXPECT_TRUE(at::equal(local, global.narrow(1, 3 * (rank % 2), 3)));
    EXPECT_TRUE(at::equal(plain, global));
  });
}

TEST(LoadFiles, RanksWithDifferentPlainTensorsReadTheirOwn) {
  const auto global = at::randn({3});
  const auto files = stored("different", {{"a", global}, {"b", global}});
  run_on_ranks(2, [&](int64_t rank) {
    const auto plain = at::zeros({3});
    load_files(files, {{rank == 0 ? "a" : "b", {plain}}}, {.broadcast = true}, texts(2));
    EXPECT_TRUE(at::equal(plain, global));
  });
}

TEST(LoadFiles, ADamagedByteIsFoundWithAndWithoutBroadcast) {
  // Saved as four blocks of rows, loaded as columns: no rank reads a chunk completely.
  const auto folder = (fs::path(::testing::TempDir()) / "weft_load_files_damaged").string();
  fs::remove_all(folder);
  const auto global = at::randn({8, 6});
  run_on_ranks(4, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {4}, {"dp"});
    const auto spec = TensorSpec::make(mesh, {Shard(0)}, {8, 6}, at::kFloat);
    save_files({.tensors = {{"a", {global.narrow(0, 2 * rank, 2), spec}}}}, folder, texts(4), {});
  });
  const auto files = load_manifest(folder, "load").stored;
  for (const auto& part : files.tensors.at("a").parts) {
    for (const bool broadcast : {true, false}) {
      const auto path = files.path_of(part.file);
      const auto text = read_text(path);
      auto changed = text;
      changed[part.begin + 5] ^= 0x40;
      write_text(path, changed);
      std::atomic<int> found = 0;
      run_on_ranks(4, [&](int64_t rank) {
        const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
        const auto spec = TensorSpec::make(mesh, {Replicate(), Shard(1)}, {8, 6}, at::kFloat);
        const auto local = at::zeros({8, 3});
        try {
          load_files(files, {{"a", {local, spec}}}, {.broadcast = broadcast}, texts(4));
        } catch (const c10::ValueError& error) {
          expect_contains(error.what_without_backtrace(), "must have the checksum ");
          ++found;
        }
        EXPECT_EQ(texts(4).rank(), rank);
      });
      write_text(path, text);
      // With broadcast all ranks hear of it where they would have waited.
      EXPECT_TRUE(broadcast ? found == 4 : found >= 1) << "file " << part.file << ", " << found;
    }
  }
}

TEST(LoadFiles, AnErrorOfOneRankIsRaisedOnAllThatWait) {
  const auto files = stored("waiting", {{"a", at::ones({4})}});
  run_on_ranks(2, [&](int64_t rank) {
    const std::map<std::string, LocalTensor> wanted = {{rank == 0 ? "a" : "b", {at::zeros({4})}}};
    expect_contains(
        error_text<c10::ValueError>([&] { load_files(files, wanted, {.broadcast = true}, texts(2)); }), "it lacks 'b'");
  });
}

} // namespace load_files_test

} // namespace weft
