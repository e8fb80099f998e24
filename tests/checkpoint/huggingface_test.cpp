#include "weft/checkpoint/huggingface.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/key_map.h"
#include "weft/checkpoint/load_files.h"
#include "weft/graph/deploy/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft {

namespace huggingface_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

std::string new_folder(const std::string& name) {
  const auto path = fs::path(::testing::TempDir()) / ("weft_huggingface_" + name);
  fs::remove_all(path);
  fs::create_directories(path);
  return path.string();
}

void write_index(const std::string& folder, const std::map<std::string, std::string>& file_of) {
  std::ofstream(folder + "/" + kHuggingFaceIndex) << huggingface_index(file_of, 48);
}

TEST(HuggingFace, AnIndexSaysWhichFileHasWhichTensor) {
  const auto folder = new_folder("index");
  graph::write_safetensors({{"a", at::ones({2, 3})}, {"unlisted", at::ones({1})}}, folder + "/model-1.safetensors");
  graph::write_safetensors({{"b", at::ones({4}, at::kHalf)}}, folder + "/model-2.safetensors");
  write_index(folder, {{"a", "model-1.safetensors"}, {"b", "model-2.safetensors"}});
  EXPECT_TRUE(is_huggingface(folder));
  const auto stored = read_huggingface(folder);
  EXPECT_EQ(stored.tensors.size(), 2u);
  EXPECT_EQ(stored.tensors.at("a").sizes, c10::DimVector({2, 3}));
  EXPECT_EQ(stored.tensors.at("a").parts[0].strides, c10::DimVector({3, 1}));
  EXPECT_EQ(stored.tensors.at("b").dtype, at::kHalf);
  EXPECT_EQ(stored.path_of(stored.tensors.at("b").parts[0].file), folder + "/model-2.safetensors");
}

TEST(HuggingFace, OneFileNeedsNoIndex) {
  const auto folder = new_folder("file");
  EXPECT_FALSE(is_huggingface(folder));
  expect_contains(
      error_text<c10::ValueError>([&] { read_huggingface(folder); }),
      "or one safetensors file is required, but there are 0");
  graph::write_safetensors({{"a", at::ones({2})}}, folder + "/weights.safetensors");
  EXPECT_EQ(read_huggingface(folder).tensors.size(), 1u);
  EXPECT_EQ(read_huggingface(folder + "/weights.safetensors").tensors.size(), 1u);
  graph::write_safetensors({{"b", at::ones({2})}, {"c", at::ones({2})}}, folder + "/model.safetensors");
  EXPECT_EQ(read_huggingface(folder).tensors.size(), 2u);
}

TEST(HuggingFace, ATensorOfADtypeThatTorchLacksIsAnErrorOnlyWhereItIsWanted) {
  const auto path = new_folder("f4") + "/model.safetensors";
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F4","shape":[6],"data_offsets":[4,7]}})";
  std::ofstream(path, std::ios::binary) << static_cast<char>(header.size()) << std::string(7, '\0') << header
                                        << "1234567";
  const auto stored = read_huggingface(path);
  EXPECT_EQ(stored.tensors.size(), 1u);
  EXPECT_EQ(stored.unreadable.at("b"), "F4");
  const auto matched = match_keys(stored, {{"a"}}, {});
  EXPECT_TRUE(matched.missing.empty());
  EXPECT_EQ(matched.unexpected, std::vector<std::string>{"b"});
  expect_contains(
      error_text<c10::ValueError>([&] { match_keys(stored, {{"a"}, {"b"}}, {}); }),
      "a tensor of a dtype that torch has is required, but 'b' is stored as F4.");
  expect_contains(
      error_text<c10::ValueError>([&] { load_files(stored, {{"b", {at::ones({6})}}}, {}); }),
      "[load] 'b' must be stored with a dtype that torch has, but it is F4.");
}

TEST(HuggingFace, AnIndexThatIsWrongSaysSo) {
  const auto folder = new_folder("wrong");
  graph::write_safetensors({{"a", at::ones({2})}}, folder + "/model-1.safetensors");
  for (const auto* name : {"../model-1.safetensors", "/etc/passwd", ".."}) {
    write_index(folder, {{"a", name}});
    expect_contains(
        error_text<c10::ValueError>([&] { read_huggingface(folder); }),
        c10::str("a file of the same folder is required for 'a', but got \"", name));
  }
  write_index(folder, {{"b", "model-1.safetensors"}});
  expect_contains(
      error_text<c10::ValueError>([&] { read_huggingface(folder); }),
      "the tensor 'b', which the index says is in it, is required");
  write_index(folder, {{"a", "model-3.safetensors"}});
  expect_contains(
      error_text<c10::ValueError>([&] { read_huggingface(folder); }), "model-3.safetensors: cannot be opened");
  std::ofstream(folder + "/" + kHuggingFaceIndex) << "{}";
  expect_contains(
      error_text<c10::ValueError>([&] { read_huggingface(folder); }), "a map of tensors to files is required");
}

} // namespace huggingface_test

} // namespace weft
