#include "weft/graph/pt2/read_types.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"

namespace weft::graph {

namespace read_types_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::tensor_meta;

JsonRecord record_of(const json& value) {
  return {"m.pt2", "models/model.json", value.dump()};
}
std::string tensor_error(const json& meta) {
  std::map<std::string, Symbol> symbols;
  const auto record = record_of(meta);
  return error_text<c10::Error>([&] { read_tensor_type(record, symbols); });
}

TEST(ReadTypes, TensorsHaveSizesOfSymbolsWhoseHintsAreKept) {
  std::map<std::string, Symbol> symbols;
  const auto record = record_of(tensor_meta({"Symbol('s77', positive=True, integer=True)", "2*s0 + 1"}, {3, 1}));
  const auto type = read_tensor_type(record, symbols);
  EXPECT_EQ(type.dtype, at::kFloat);
  EXPECT_EQ(type.sizes, (Sizes{Size::symbol("s77"), Size::parse("2*s0 + 1")}));
  EXPECT_EQ(type.strides, (Sizes{3, 1}));
  EXPECT_EQ(type.device, c10::kCPU);
  EXPECT_EQ(symbols.at("s77").hint, 4);
  EXPECT_FALSE(symbols.at("s0").hint);
}

TEST(ReadTypes, WhatDoesNotFitIsNamed) {
  auto meta = tensor_meta({2, 3}, {3, 1});
  meta["dtype"] = 99;
  expect_contains(tensor_error(meta), "models/model.json: dtype: the number of a dtype is required, but got 99");
  meta = tensor_meta({2, 3}, {1});
  expect_contains(tensor_error(meta), "as many strides as sizes are required, but got 1 and 2");
  meta = tensor_meta({-2}, {1});
  expect_contains(tensor_error(meta), "sizes must not be negative, but got -2");
  meta = tensor_meta({2}, {1});
  meta["device"] = {{"type", "abacus"}};
  expect_contains(tensor_error(meta), "device: the name of a device is required, but got \"abacus\"");
  meta["device"] = {{"type", "cuda"}, {"index", 1000}};
  expect_contains(tensor_error(meta), "device.index: the number of a device is required, but got 1000");
  meta = tensor_meta({2}, {1});
  meta["layout"] = 1;
  expect_contains(tensor_error(meta), "layout: a strided tensor is required, but got the layout 1");
  meta = tensor_meta({"Where(a, b, c)"}, {1});
  expect_contains(tensor_error(meta), "sizes[0].as_expr: a size that is made of sums");
  meta = tensor_meta(std::vector<json>(65, 1), std::vector<json>(65, 1));
  expect_contains(tensor_error(meta), "a tensor of at most 64 dims is required, but got 65");
}

TEST(ReadTypes, NumbersKeepWhatTheyAreOfSymbols) {
  std::map<std::string, Symbol> symbols;
  const auto read = [&](const json& value, NumberKind kind) {
    const auto record = record_of(value);
    return read_number_type(record, kind, symbols).expression;
  };
  EXPECT_EQ(
      read({{"as_expr", {{"expr_str", "Mul(Integer(2), Symbol('s1'))"}, {"hint", nullptr}}}}, NumberKind::Int), "2*s1");
  EXPECT_EQ(read({{"as_int", 5}}, NumberKind::Int), "5");
  EXPECT_EQ(read({{"as_float", 0.5}}, NumberKind::Float), "0.5");
  EXPECT_EQ(read({{"as_bool", true}}, NumberKind::Bool), "True");
  const std::string comparison = "Equality(Symbol('s1'), Integer(2))";
  EXPECT_EQ(read({{"as_expr", {{"expr_str", comparison}}}}, NumberKind::Bool), comparison);
}

} // namespace read_types_test

} // namespace weft::graph
