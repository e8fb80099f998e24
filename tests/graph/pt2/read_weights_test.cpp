#include "weft/graph/pt2/read_weights.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"

namespace weft::graph {

namespace read_weights_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;
using testing::Pt2File;
using testing::tensor_meta;

std::map<std::string, at::Tensor> read(const Pt2File& file) {
  return read_weights(Archive(MappedFile::from_bytes(file.bytes(), "m.pt2")), "model");
}
std::string error_of(const Pt2File& file) {
  return error_text<c10::Error>([&] { read(file); });
}
json& payload(Pt2File& file, const char* name = "wq.weight") {
  return file.weights["config"][name];
}

TEST(ReadWeights, TensorsHaveTheFilesValues) {
  const auto tensors = read(linear_pt2());
  EXPECT_TRUE(tensors.at("wq.weight").equal(at::arange(1.0f, 7.0f).reshape({3, 2})));
  EXPECT_TRUE(tensors.at("wq.bias").equal(at::tensor({10.0f, 20.0f, 30.0f})));
}

TEST(ReadWeights, StridesAndOffsetsAreViewsOfTheSameMemory) {
  auto file = linear_pt2();
  payload(file, "turned") = payload(file);
  payload(file, "turned")["tensor_meta"] = tensor_meta({2, 2}, {1, 2});
  payload(file, "turned")["tensor_meta"]["storage_offset"] = {{"as_int", 2}};
  const auto tensors = read(file);
  EXPECT_TRUE(tensors.at("turned").equal(tensors.at("wq.weight").narrow(0, 1, 2).t()));
  EXPECT_TRUE(tensors.at("turned").is_alias_of(tensors.at("wq.weight")));
  EXPECT_EQ(tensors.at("turned")._version(), 0);
}

TEST(ReadWeights, TensorsOutliveTheirFile) {
  at::Tensor weight;
  { weight = read(linear_pt2()).at("wq.weight"); }
  weight.mul_(2);
  EXPECT_EQ(weight.sum().item<double>(), 42);
}

TEST(ReadWeights, EmptyTensorsNeedNoBytes) {
  auto file = linear_pt2();
  payload(file)["tensor_meta"] = tensor_meta({0, 1000000000000}, {1, 1});
  file.records["data/weights/weight_0"] = "";
  EXPECT_EQ(read(file).at("wq.weight").numel(), 0);
}

TEST(ReadWeights, RecordsShorterThanTheirTensorsAreNamed) {
  auto file = linear_pt2();
  file.records["data/weights/weight_0"].pop_back();
  EXPECT_EQ(
      error_of(file),
      "[read_pt2] m.pt2: data/weights/model_weights_config.json: config.wq.weight.tensor_meta: the record "
      "data/weights/weight_0 has 23 bytes, but a tensor of sizes [3, 2] and strides [2, 1] at 0 needs 24.");
  file = linear_pt2();
  payload(file)["tensor_meta"]["storage_offset"] = {{"as_int", 1}};
  expect_contains(error_of(file), "at 1 needs 28");
}

TEST(ReadWeights, HugeAndNegativeSizesAllocateNothing) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::vector<std::pair<json, json>> cases = {
      {tensor_meta({kHuge}, {1}), "needs"},
      {tensor_meta({kHuge, kHuge}, {1, 1}), "needs more than can be counted"},
      {tensor_meta({kHuge, kHuge}, {0, 0}), "needs more than can be counted"},
      {tensor_meta({3}, {kHuge}), "needs more than can be counted"},
      {tensor_meta({-1}, {1}), "sizes must not be negative, but got -1"},
      {tensor_meta({3}, {-1}), "numbers are required for a stored tensor, but got -1"},
      {tensor_meta({"s77"}, {1}), "numbers are required for a stored tensor, but got s77"},
  };
  for (const auto& [meta, text] : cases) {
    auto file = linear_pt2();
    payload(file)["tensor_meta"] = meta;
    expect_contains(error_of(file), text);
  }
}

TEST(ReadWeights, WhatIsMissingOrNotSupportedIsNamed) {
  auto file = linear_pt2();
  file.records.erase("data/weights/weight_1");
  expect_contains(error_of(file), "config.wq.bias.path_name: the record data/weights/weight_1 is not in the file");
  file = linear_pt2();
  payload(file)["use_pickle"] = true;
  expect_contains(error_of(file), "config.wq.weight: a pickled tensor is not supported");
  file = linear_pt2();
  file.constants = nullptr;
  expect_contains(error_of(file), "m.pt2: data/constants/model_constants_config.json: there is no such record");
  file = linear_pt2();
  file.constants = file.weights;
  file.records["data/constants/weight_0"] = file.records["data/weights/weight_0"];
  file.records["data/constants/weight_1"] = file.records["data/weights/weight_1"];
  expect_contains(error_of(file), "there are two tensors \"wq.bias\"");
}

} // namespace read_weights_test

} // namespace weft::graph
