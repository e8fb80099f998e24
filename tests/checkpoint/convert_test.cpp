#include "weft/checkpoint/convert.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/load_files.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/save_files.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace weft {

namespace convert_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

std::string new_path(const std::string& name) {
  const auto path = fs::path(::testing::TempDir()) / ("weft_convert_" + name);
  fs::remove_all(path);
  return path.string();
}

at::Tensor loaded(const StoredTensors& stored, const std::string& name) {
  const auto& tensor = stored.tensors.at(name);
  const auto result = at::empty(tensor.sizes, at::TensorOptions(tensor.dtype));
  load_files(stored, {{name, {result}}}, {});
  return result;
}

TEST(Convert, ACheckpointComesBackThroughAHuggingFaceFolder) {
  const auto checkpoint = new_path("checkpoint");
  const auto a = at::randn({10, 3});
  const auto b = at::randn({7}).to(at::kBFloat16);
  save_files(
      {.tensors =
           {{"model.a", {a}}, {"model.b", {b}}, {"model.empty", {at::empty({0})}}, {"optimizer.x", {at::ones({2})}}},
       .values = {{"step", "3"}}},
      checkpoint, RankTexts{DeviceMesh()}, {});
  for (const uint64_t most : {uint64_t{1} << 30, uint64_t{100}}) {
    const auto folder = new_path("hf");
    double done = 0;
    const auto stored = load_manifest(checkpoint, "load").stored;
    EXPECT_EQ(
        export_huggingface(
            stored, folder,
            {.prefix = "model.", .max_file_bytes = most, .on_progress = [&](double part) { done = part; }}),
        3);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(fs::exists(folder + "/" + kHuggingFaceIndex), most == 100);
    EXPECT_EQ(fs::exists(folder + "/model-00002-of-00002.safetensors"), most == 100);
    const auto exported = read_huggingface(folder);
    EXPECT_TRUE(at::equal(loaded(exported, "a"), a));
    EXPECT_TRUE(at::equal(loaded(exported, "b"), b));
    expect_contains(
        error_text<c10::ValueError>([&] { export_huggingface(stored, folder, {.prefix = "model."}); }),
        "a folder without weights is required");

    const auto back = new_path("back");
    EXPECT_EQ(import_tensors(exported, back, {.prefix = "model.", .max_file_bytes = most}), 3);
    const auto again = load_manifest(back, "load").stored;
    EXPECT_TRUE(at::equal(loaded(again, "model.a"), a));
    EXPECT_EQ(again.tensors.at("model.empty").sizes, c10::DimVector({0}));
    expect_contains(
        error_text<c10::ValueError>([&] { import_tensors(exported, back, {}); }),
        "a new folder is required, but it is not empty");
  }
}

TEST(Convert, APrefixThatNoTensorHasIsAnError) {
  const auto checkpoint = new_path("prefix");
  save_files({.tensors = {{"a", {at::ones({2})}}}}, checkpoint, RankTexts{DeviceMesh()}, {});
  expect_contains(
      error_text<c10::ValueError>([&] {
        export_huggingface(load_manifest(checkpoint, "load").stored, new_path("none"), {.prefix = "model."});
      }),
      "tensors whose names begin with \"model.\" are required, but there are none.");
}

} // namespace convert_test

} // namespace weft
