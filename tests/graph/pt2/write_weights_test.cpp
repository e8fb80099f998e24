#include "weft/graph/pt2/write_weights.h"

#include "tests/support/error_text.h"

#include <nlohmann/json.hpp>

namespace weft::graph {

namespace write_weights_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;

class WriteWeights : public ::testing::Test {
 protected:
  void add(const std::string& name, const at::Tensor& tensor, InputKind kind = InputKind::Parameter) {
    const Sizes sizes(tensor.sizes().begin(), tensor.sizes().end());
    auto* value = program_.graph->add_input("v", contiguous_type(tensor.scalar_type(), sizes));
    program_.inputs.push_back({kind, name, true, std::nullopt, value});
    program_.tensors[name] = tensor;
  }
  void write() {
    write_weights(program_, "model", {}, [this](const std::string& name, const void* data, size_t size) {
      records_[name] = std::string(static_cast<const char*>(data), size);
    });
    weights_ = json::parse(records_.at("data/weights/model_weights_config.json"))["config"];
    constants_ = json::parse(records_.at("data/constants/model_constants_config.json"))["config"];
  }
  static std::string bytes(const at::Tensor& tensor) {
    const auto contiguous = tensor.contiguous();
    return {static_cast<const char*>(contiguous.const_data_ptr()), contiguous.nbytes()};
  }
  static json numbers(std::vector<int64_t> values) {
    json result = json::array();
    for (const auto value : values) {
      result.push_back({{"as_int", value}});
    }
    return result;
  }

  Program program_;
  std::map<std::string, std::string> records_;
  json weights_;
  json constants_;
};

TEST_F(WriteWeights, ParametersAndConstantsGoToTheirFolders) {
  const auto weight = at::randn({3, 2});
  const auto constant = at::arange(4);
  add("weight", weight);
  add("constant", constant, InputKind::Constant);
  write();
  EXPECT_EQ(records_.at("data/weights/weight_0"), bytes(weight));
  EXPECT_EQ(records_.at("data/constants/tensor_0"), bytes(constant));
  EXPECT_TRUE(weights_["weight"]["is_param"]);
  EXPECT_FALSE(constants_["constant"]["is_param"]);
  EXPECT_EQ(constants_["constant"]["tensor_meta"]["dtype"], 5);
}

TEST_F(WriteWeights, APartOfATensorIsWrittenAlone) {
  const auto base = at::randn({4, 6});
  add("rows", base.narrow(0, 2, 2));
  add("columns", base.narrow(1, 0, 3));
  add("turned", at::randn({2, 3}).t());
  write();
  EXPECT_EQ(records_.at("data/weights/weight_0"), bytes(base.narrow(0, 2, 2)));
  EXPECT_EQ(records_.at("data/weights/weight_1"), bytes(base.narrow(1, 0, 3)));
  EXPECT_EQ(weights_["columns"]["tensor_meta"]["strides"], numbers({3, 1}));
  EXPECT_EQ(weights_["columns"]["tensor_meta"]["storage_offset"], json({{"as_int", 0}}));
  EXPECT_EQ(weights_["turned"]["tensor_meta"]["strides"], numbers({1, 3}));
}

TEST_F(WriteWeights, TiedTensorsAreWrittenOnce) {
  const auto base = at::randn({4, 6});
  const auto columns = base.narrow(1, 3, 3);
  const auto other = at::randn({5});
  add("columns", columns);
  add("same_columns", columns.detach());
  add("part", other.narrow(0, 1, 2));
  add("all", other);
  program_.tensors["another_name"] = other;
  write();
  EXPECT_EQ(weights_["columns"]["path_name"], weights_["same_columns"]["path_name"]);
  EXPECT_EQ(records_.at("data/weights/weight_0"), bytes(columns));
  EXPECT_EQ(weights_["part"]["path_name"], "weight_1");
  EXPECT_EQ(weights_["all"]["path_name"], "weight_1");
  EXPECT_EQ(weights_["another_name"]["path_name"], "weight_1");
  EXPECT_TRUE(weights_["another_name"]["is_param"]);
  EXPECT_EQ(records_.at("data/weights/weight_1"), bytes(other));
  EXPECT_EQ(weights_["part"]["tensor_meta"]["storage_offset"], json({{"as_int", 1}}));
  EXPECT_EQ(records_.size(), 4u);
}

TEST_F(WriteWeights, EmptyTensorsAndScalarsAreWritten) {
  add("empty", at::zeros({0, 3}));
  add("scalar", at::tensor(2.0));
  add("expanded", at::ones({1}).expand({4}));
  write();
  EXPECT_EQ(records_.at("data/weights/weight_0"), "");
  EXPECT_EQ(records_.at("data/weights/weight_1"), bytes(at::tensor(2.0)));
  EXPECT_EQ(records_.at("data/weights/weight_2"), bytes(at::ones({4})));
}

TEST_F(WriteWeights, WhatHasNoValuesRaises) {
  add("meta", at::empty({3}, at::device(at::kMeta)));
  expect_contains(
      error_text<c10::ValueError>([this] { write(); }),
      "[write_pt2] the tensor meta must be a strided one that has values");
  program_.tensors.clear();
  expect_contains(
      error_text<c10::ValueError>([this] { write(); }),
      "[write_pt2] the tensor meta, an input of the program, is required");
}

} // namespace write_weights_test

} // namespace weft::graph
