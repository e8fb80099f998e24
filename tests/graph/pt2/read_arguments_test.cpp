#include "weft/graph/pt2/read_arguments.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"

namespace weft::graph {

namespace read_arguments_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::named_argument;
using testing::tensor_argument;

class ReadArguments : public ::testing::Test {
 protected:
  ReadArguments() {
    x_ = graph_.add_input("x", contiguous_type(at::kFloat, {2, 3}));
    size_ = graph_.add_input("size", NumberType{NumberKind::Int, "s0"});
    for (auto* value : {x_, size_}) {
      const JsonRecord name("m.pt2", "models/model.json", json(value->name()).dump());
      values_.define(name, value);
    }
  }
  ArgumentsAndOperands read(const char* op, const char* overload, const json& inputs) {
    const JsonRecord record("m.pt2", "models/model.json", inputs.dump());
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op, overload);
    return read_arguments(record, handle.schema(), values_);
  }
  /// The argument of this name in a call with x as self.
  Argument argument(const char* op, const char* overload, const std::string& name, const json& value) {
    const auto call = read(op, overload, {named_argument("self", tensor_argument("x")), named_argument(name, value)});
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op, overload);
    return call.arguments[*handle.schema().argumentIndexWithName(name)];
  }

  Graph graph_;
  Value* x_;
  Value* size_;
  NamedValues values_;
};

TEST_F(ReadArguments, ArePlacedBySchemaAndAbsentWhereNothingIsSaid) {
  const auto call = read(
      "aten::add", "Tensor",
      {named_argument("alpha", {{"as_float", 0.5}}), named_argument("other", tensor_argument("x")),
       named_argument("self", tensor_argument("x"))});
  EXPECT_EQ(call.operands, (std::vector<Value*>{x_, x_}));
  EXPECT_EQ(call.arguments[1].operand(), 1u);
  EXPECT_EQ(call.arguments[2].constant().toDouble(), 0.5);
  EXPECT_TRUE(
      read("aten::relu", "", json::array({named_argument("self", tensor_argument("x"))})).arguments[0].is_operand());
}

TEST_F(ReadArguments, NumbersBecomeWhatTheSchemaAsksFor) {
  EXPECT_TRUE(argument("aten::leaky_relu", "", "negative_slope", {{"as_int", 1}}).constant().isInt()); // a Scalar
  EXPECT_TRUE(argument("aten::bernoulli", "p", "p", {{"as_int", 1}}).constant().isDouble());
  EXPECT_EQ(argument("aten::to", "dtype", "dtype", {{"as_scalar_type", 13}}).constant().toScalarType(), at::kBFloat16);
  EXPECT_EQ(
      argument("aten::clone", "", "memory_format", {{"as_memory_format", 2}}).constant().toMemoryFormat(),
      at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(argument("aten::zeros_like", "", "layout", {{"as_layout", 7}}).constant().toLayout(), at::kStrided);
  EXPECT_EQ(
      argument("aten::zeros_like", "", "device", {{"as_device", {{"type", "cuda"}, {"index", 1}}}})
          .constant()
          .toDevice(),
      c10::Device(c10::kCUDA, 1));
  EXPECT_TRUE(argument("aten::clone", "", "memory_format", {{"as_none", true}}).constant().isNone());
  EXPECT_EQ(argument("aten::gelu", "", "approximate", {{"as_string", "tanh"}}).constant().toStringRef(), "tanh");
  EXPECT_EQ(
      argument("aten::mul", "Scalar", "other", {{"as_complex", {{"real", 1}, {"imag", "Infinity"}}}})
          .constant()
          .toComplexDouble()
          .imag(),
      std::numeric_limits<double>::infinity());
  EXPECT_TRUE(argument("aten::upsample_nearest1d", "", "output_size", {{"as_ints", {6}}}).constant().isIntList());
  EXPECT_EQ(
      argument("aten::upsample_nearest1d", "", "output_size", {{"as_int", 6}}).constant().toIntVector(),
      (std::vector<int64_t>{6}));
  EXPECT_EQ(
      argument("aten::max_pool2d", "", "kernel_size", {{"as_int", 2}}).constant().toIntVector(),
      (std::vector<int64_t>{2, 2}));
}

TEST_F(ReadArguments, ConstantNumbersForTensorsAreWrappedAndComputedOnesStay) {
  const auto constant = argument("aten::mul", "Tensor", "other", {{"as_int", 2}}).constant().toTensor();
  EXPECT_TRUE(constant.unsafeGetTensorImpl()->is_wrapped_number());
  EXPECT_EQ(constant.scalar_type(), at::kLong);
  EXPECT_TRUE(argument("aten::mul", "Tensor", "other", {{"as_sym_int", {{"as_name", "size"}}}}).is_operand());
}

TEST_F(ReadArguments, ListsHoldOperandsAndConstants) {
  const auto sizes = argument("aten::view", "", "size", {{"as_sym_ints", {{{"as_name", "size"}}, {{"as_int", 3}}}}});
  ASSERT_TRUE(sizes.is_list());
  EXPECT_TRUE(sizes.elements()[0].is_operand());
  EXPECT_EQ(sizes.elements()[1].constant().toInt(), 3);
  const auto places = argument(
      "aten::index", "Tensor", "indices", {{"as_optional_tensors", {{{"as_none", true}}, tensor_argument("x")}}});
  EXPECT_TRUE(places.elements()[0].constant().isNone());
  EXPECT_TRUE(places.elements()[1].is_operand());
  const auto none = argument("aten::index", "Tensor", "indices", {{"as_tensors", json::array()}});
  EXPECT_EQ(none.constant().toListRef().size(), 0u);
  EXPECT_TRUE(argument("aten::view", "", "size", {{"as_sym_ints", {{{"as_int", 6}}}}}).constant().isIntList());
}

TEST_F(ReadArguments, ListsOfWhatMayBeNoneAreAsOperatorsTakeThem) {
  const auto x = tensor_argument("x");
  const auto read_dtypes = [&](const json& dtypes) {
    const json one = {{"as_int", 1}};
    const auto call = read(
        "weft::all_gather_scaled_matmul", "",
        {named_argument("shard", x), named_argument("shard_scale", x),
         named_argument("others", {{"as_tensors", json::array()}}),
         named_argument("other_scales", {{"as_tensors", json::array()}}),
         named_argument("biases", {{"as_optional_tensors", {{{"as_none", true}}, x}}}),
         named_argument("result_scales", {{"as_optional_tensors", {{{"as_none", true}}}}}),
         named_argument("out_dtypes", dtypes), named_argument("use_fast_accum", {{"as_bools", {false}}}),
         named_argument("dim", one), named_argument("size", {{"as_sym_int", {{"as_name", "size"}}}}),
         named_argument("chunks", one), named_argument("gathered", {{"as_bool", true}}),
         named_argument("group", {{"as_string", "tp"}})});
    EXPECT_TRUE(call.arguments[4].is_list());
    EXPECT_TRUE(call.arguments[9].is_operand());
    return call.arguments[6].constant();
  };
  const auto given = read_dtypes({{"as_ints", {15}}});
  EXPECT_EQ(given.toListRef()[0].toScalarType(), at::kBFloat16);
  EXPECT_EQ(*given.toList().elementType(), *c10::OptionalType::create(c10::IntType::get()));
  EXPECT_TRUE(read_dtypes({{"as_optional_tensors", {{{"as_none", true}}}}}).toListRef()[0].isNone());
}

TEST_F(ReadArguments, WhatDoesNotFitIsNamed) {
  const auto error = [&](const char* op, const char* overload, const std::string& name, const json& value) {
    return error_text<c10::Error>([&] { argument(op, overload, name, value); });
  };
  expect_contains(
      error("aten::gelu", "", "approximate", {{"as_int", 1}}),
      "[read_pt2] m.pt2: models/model.json: [1].arg: an argument of type str is required, but got an object of "
      "\"as_int\".");
  expect_contains(error("aten::gelu", "", "loud", {{"as_int", 1}}), "aten::gelu has no argument \"loud\"");
  expect_contains(
      error("aten::softmax", "int", "dim", tensor_argument("x")),
      "an argument of type int is required, but got the tensor x");
  expect_contains(error("aten::softmax", "int", "dim", {{"as_none", true}}), "is required, but got None");
  expect_contains(
      error("aten::softmax", "int", "dim", {{"as_graph", {{"name", "g"}}}}), "given by as_graph is not supported");
  expect_contains(error("aten::softmax", "int", "dim", {{"as_float", 1.5}}), "an argument of type int is required");
  expect_contains(
      error("aten::mul", "Tensor", "other", tensor_argument("y")),
      "[1].arg.as_tensor.name: the name \"y\" is used, but not defined before it is");
  expect_contains(
      error_text<c10::ValueError>(
          [&] { read("aten::mul", "Tensor", json::array({named_argument("self", tensor_argument("x"))})); }),
      "aten::mul needs the argument \"other\", but it is not given");
  expect_contains(
      error_text<c10::ValueError>([&] {
        const auto x = named_argument("self", tensor_argument("x"));
        read("aten::relu", "", {x, x});
      }),
      "the argument \"self\" is given twice");
}

TEST_F(ReadArguments, ConstantsAreThoseOfOneValue) {
  const auto read_one = [](const json& value) {
    const JsonRecord record("m.pt2", "models/model.json", value.dump());
    return read_constant(record);
  };
  EXPECT_TRUE(read_one({{"as_none", true}})->isNone());
  EXPECT_EQ(read_one({{"as_string", "a"}})->toStringRef(), "a");
  EXPECT_FALSE(read_one(tensor_argument("x")));
}

} // namespace read_arguments_test

} // namespace weft::graph
