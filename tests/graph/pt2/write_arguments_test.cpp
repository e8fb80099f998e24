#include "weft/graph/pt2/write_arguments.h"

#include "tests/support/error_text.h"
#include "weft/graph/pt2/read_arguments.h"

#include <ATen/ScalarOps.h>

namespace weft::graph {

namespace write_arguments_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;

class WriteArguments : public ::testing::Test {
 protected:
  WriteArguments() {
    x_ = program_.graph->add_input("x", contiguous_type(at::kFloat, {2, 3}));
    size_ = program_.graph->add_input("size", NumberType{NumberKind::Int, "s0"});
  }
  json write(const char* op, const char* overload, Arguments arguments) {
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op, overload);
    arguments.resize(handle.schema().arguments().size());
    const auto type = contiguous_type(at::kFloat, {2, 3});
    auto* node = program_.graph->insert(nullptr, handle, std::move(arguments), {x_, size_}, {{type}});
    return write_arguments(*node, WrittenNames(program_));
  }

  Program program_;
  Value* x_;
  Value* size_;
  const Argument self_ = Argument::operand(0);
};

TEST_F(WriteArguments, WhatIsAbsentIsLeftOutAndWhatComesAfterIsNamed) {
  const auto inputs = write("aten::topk", "", {self_, Argument(2), Argument(), Argument(), Argument(true)});
  EXPECT_EQ(inputs.size(), 3u);
  EXPECT_EQ(inputs[0], json({{"name", "self"}, {"arg", {{"as_tensor", {{"name", "x"}}}}}, {"kind", 1}}));
  EXPECT_EQ(inputs[1]["arg"], json({{"as_int", 2}}));
  EXPECT_EQ(inputs[2], json({{"name", "sorted"}, {"arg", {{"as_bool", true}}}, {"kind", 2}}));
}

TEST_F(WriteArguments, EnumsHaveTheFormatsNumbers) {
  const auto inputs = write(
      "aten::zeros_like", "",
      {self_, Argument(at::kBFloat16), Argument(at::kStrided), Argument(c10::Device("cuda:1")), Argument(c10::IValue()),
       Argument(at::MemoryFormat::Preserve)});
  EXPECT_EQ(inputs[1]["arg"], json({{"as_scalar_type", 13}}));
  EXPECT_EQ(inputs[2]["arg"], json({{"as_layout", 7}}));
  EXPECT_EQ(inputs[3]["arg"], json({{"as_device", {{"type", "cuda"}, {"index", 1}}}}));
  EXPECT_EQ(inputs[4]["arg"], json({{"as_none", true}}));
  EXPECT_EQ(inputs[5]["arg"], json({{"as_memory_format", 4}}));
}

TEST_F(WriteArguments, ListsAreOfNumbersTensorsOrBothKindsOfSizes) {
  const auto sizes = Argument::list({Argument::operand(1), Argument(3)});
  EXPECT_EQ(
      write("aten::view", "", {self_, sizes})[1]["arg"],
      json({{"as_sym_ints", {{{"as_name", "size"}}, {{"as_int", 3}}}}}));
  EXPECT_EQ(write("aten::view", "", {self_, Argument(std::vector<int64_t>{6})})[1]["arg"], json({{"as_ints", {6}}}));
  EXPECT_EQ(
      write("aten::view", "", {self_, Argument(std::vector<int64_t>{})})[1]["arg"], json({{"as_ints", json::array()}}));
  EXPECT_EQ(
      write("aten::cat", "", {Argument::list({self_, self_})})[0]["arg"],
      json({{"as_tensors", {{{"name", "x"}}, {{"name", "x"}}}}}));
  EXPECT_EQ(
      write("aten::index", "Tensor", {self_, Argument::list({Argument(c10::IValue()), self_})})[1]["arg"],
      json({{"as_optional_tensors", {{{"as_none", true}}, {{"as_tensor", {{"name", "x"}}}}}}}));
}

TEST_F(WriteArguments, ListsWithoutOperandsAreConstants) {
  EXPECT_EQ(write("aten::new_ones", "", {self_, Argument::list({})})[1]["arg"], json({{"as_ints", json::array()}}));
  EXPECT_EQ(write("aten::new_ones", "", {self_, Argument::list({Argument(3)})})[1]["arg"], json({{"as_ints", {3}}}));
  EXPECT_EQ(write("aten::cat", "", {Argument::list({})})[0]["arg"], json({{"as_tensors", json::array()}}));
}

TEST_F(WriteArguments, AnUndefinedTensorIsNone) {
  EXPECT_EQ(
      write("aten::linear", "", {self_, self_, Argument(c10::IValue(at::Tensor()))})[2]["arg"],
      json({{"as_none", true}}));
}

TEST_F(WriteArguments, DtypesInAListAreNumbersOrAllNone) {
  const auto dtypes = [&](std::vector<c10::IValue> values) {
    c10::impl::GenericList list(c10::OptionalType::create(c10::IntType::get()));
    for (const auto& value : values) {
      list.push_back(value);
    }
    Arguments arguments(13, Argument(c10::IValue()));
    arguments[0] = self_;
    arguments[6] = c10::IValue(list);
    return write("weft::all_gather_scaled_matmul", "", arguments)[6]["arg"];
  };
  EXPECT_EQ(dtypes({at::kBFloat16, at::kFloat}), json({{"as_ints", {15, 6}}}));
  EXPECT_EQ(dtypes({{}, {}}), json({{"as_optional_tensors", {{{"as_none", true}}, {{"as_none", true}}}}}));
  EXPECT_EQ(dtypes({}), json({{"as_ints", json::array()}}));
  expect_contains(
      error_text<c10::ValueError>([&] { dtypes({{}, at::kFloat}); }),
      "weft::all_gather_scaled_matmul: the format has no list in which some are None and others are not.");
}

TEST_F(WriteArguments, NumbersForTensorsAreNumbersAgainAndOtherTensorsRaise) {
  auto two = at::scalar_to_tensor(2.5);
  two.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_EQ(write("aten::mul", "Tensor", {self_, Argument(two)})[1]["arg"], json({{"as_float", 2.5}}));
  EXPECT_EQ(
      write("aten::mul", "Tensor", {self_, Argument::operand(1)})[1]["arg"],
      json({{"as_sym_int", {{"as_name", "size"}}}}));
  expect_contains(
      error_text<c10::ValueError>([&] { write("aten::mul", "Tensor", {self_, Argument(at::ones({2}))}); }),
      "[write_pt2] aten::mul.Tensor: a tensor must be a value of the program, but it is a constant");
}

TEST_F(WriteArguments, RealNumbersThatJsonHasNotAreWords) {
  const auto infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(write_constant(infinity), json({{"as_float", "Infinity"}}));
  EXPECT_EQ(write_constant(-infinity), json({{"as_float", "-Infinity"}}));
  EXPECT_EQ(write_constant(std::nan("")), json({{"as_float", "NaN"}}));
  EXPECT_EQ(write_constant(c10::complex<double>(1, 2)), json({{"as_complex", {{"real", 1.0}, {"imag", 2.0}}}}));
  EXPECT_EQ(write_constant("a"), json({{"as_string", "a"}}));
}

} // namespace write_arguments_test

} // namespace weft::graph
