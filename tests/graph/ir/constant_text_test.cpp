#include "weft/graph/ir/constant_text.h"

#include "tests/support/error_text.h"

#include <ATen/core/List.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft::graph {

namespace constant_text_test {
using c10::IValue;
using testing::error_text;
using testing::expect_contains;

IValue parsed(std::string_view text, const c10::TypePtr& type = c10::AnyType::get()) {
  TextCursor cursor("test", text);
  auto value = parse_constant(cursor, type);
  cursor.expect_end();
  return value;
}

c10::TypePtr optional(const c10::TypePtr& type) {
  return c10::OptionalType::create(type);
}

/// Expects that the constant is printed as this text for an argument of this type, and that the text parses back.
void expect_text(const IValue& value, const std::string& text, const c10::TypePtr& type = c10::AnyType::get()) {
  EXPECT_EQ(constant_text(value, *type), text);
  const auto back = parsed(text, type);
  EXPECT_EQ(back, value) << text;
  EXPECT_EQ(back.tagKind(), value.tagKind()) << text;
  EXPECT_EQ(*back.type(), *value.type()) << text;
}

TEST(ConstantText, NumbersParseBackExactly) {
  expect_text(3, "3");
  expect_text(std::numeric_limits<int64_t>::min(), "-9223372036854775808");
  expect_text(1.0, "1.0");
  expect_text(-0.0, "-0.0");
  EXPECT_TRUE(std::signbit(parsed("-0.0").toDouble()));
  expect_text(0.1, "0.1");
  expect_text(1e-5, "1e-05");
  expect_text(1e300, "1e+300");
  expect_text(1.0 / 3, "0.3333333333333333");
  expect_text(std::numeric_limits<double>::denorm_min(), "5e-324");
  expect_text(std::numeric_limits<double>::infinity(), "inf");
  expect_text(-std::numeric_limits<double>::infinity(), "-inf");
  EXPECT_TRUE(std::isnan(parsed("nan").toDouble()));
  EXPECT_EQ(constant_text(std::nan(""), *c10::FloatType::get()), "nan");
  expect_text(c10::complex<double>(0.5, -1.0), "complex(0.5, -1.0)");
  expect_text(true, "True");
  expect_text(false, "False");
  expect_text(IValue(), "None");
}

TEST(ConstantText, AnIntegerStaysOneWhereAFloatIsWanted) {
  expect_text(2, "2", c10::FloatType::get());
  expect_text(2.0, "2.0", c10::NumberType::get());
  expect_text(2, "2", c10::NumberType::get());
}

TEST(ConstantText, ANumberInThePlaceOfATensorIsOneThatStandsForIt) {
  const auto type = optional(c10::TensorType::get());
  const auto rows = std::vector<std::pair<const char*, at::ScalarType>>{
      {"2", at::kLong}, {"0.5", at::kDouble}, {"True", at::kBool}, {"complex(0.0, 1.0)", at::kComplexDouble}};
  for (const auto& [text, dtype] : rows) {
    const auto tensor = parsed(text, type).toTensor();
    EXPECT_EQ(tensor.scalar_type(), dtype);
    EXPECT_EQ(tensor.dim(), 0);
    EXPECT_TRUE(tensor.unsafeGetTensorImpl()->is_wrapped_number());
    EXPECT_EQ(constant_text(tensor, *type), text);
  }
  EXPECT_TRUE(parsed("None", type).isNone());
  EXPECT_EQ(constant_text(at::ones({}), *type), "<Tensor>");
}

TEST(ConstantText, StringsAreOnOneLine) {
  expect_text("tp", "\"tp\"");
  expect_text("", "\"\"");
  expect_text("a \"b\"\\ \n\t", R"("a \"b\"\\ \n\x09")");
  expect_text("größe ", "\"größe \"");
}

TEST(ConstantText, EnumsHaveTheNamesOfTheNotationAndOfPython) {
  const auto dtype = optional(c10::ScalarTypeType::get());
  expect_text(at::kBFloat16, "bf16", dtype);
  expect_text(IValue(), "None", dtype);
  expect_text(static_cast<int64_t>(at::kQInt8), "12", dtype);
  expect_text(c10::kStrided, "strided", c10::LayoutType::get());
  expect_text(c10::kSparseCsr, "sparse_csr", c10::LayoutType::get());
  expect_text(c10::MemoryFormat::ChannelsLast, "channels_last", c10::MemoryFormatType::get());
  expect_text(c10::Device(c10::kCUDA, 1), "cuda:1", optional(c10::DeviceObjType::get()));
  expect_text(c10::Device(c10::kCPU), "cpu", c10::DeviceObjType::get());
}

TEST(ConstantText, ListsAreOfWhatTheSchemaSays) {
  const auto ints = c10::ListType::create(c10::SymIntType::get());
  expect_text(c10::List<int64_t>({2, -1}), "[2, -1]", ints);
  expect_text(c10::List<int64_t>(), "[]", ints);
  expect_text(c10::List<double>({1.5, 2.0}), "[1.5, 2.0]", optional(c10::ListType::create(c10::FloatType::get())));
  expect_text(c10::List<int64_t>({1, 2}), "[1, 2]", c10::ListType::create(c10::FloatType::get()));
  expect_text(c10::List<bool>({true, false}), "[True, False]", c10::ListType::create(c10::BoolType::get()));
  expect_text(c10::List<std::string>({"a"}), "[\"a\"]", c10::ListType::create(c10::StringType::get()));
  expect_text(c10::List<at::Tensor>(), "[]", c10::ListType::create(c10::TensorType::get()));
  expect_text(c10::List<int64_t>({1}), "[1]");
  const auto none = parsed("[None]", c10::ListType::create(optional(c10::TensorType::get())));
  EXPECT_EQ(none.toListRef().size(), 1);
  EXPECT_TRUE(none.toListRef()[0].isNone());
  const auto dtypes = parsed("[None, bf16]", c10::ListType::create(optional(c10::ScalarTypeType::get())));
  EXPECT_EQ(dtypes.toListRef()[1].toScalarType(), at::kBFloat16);
  EXPECT_EQ(*dtypes.toList().elementType(), *optional(c10::IntType::get()));
}

TEST(ConstantText, WhatHasNoTextIsShownButDoesNotParse) {
  EXPECT_EQ(constant_text(at::empty({2}), *c10::TensorType::get()), "<Tensor>");
  expect_contains(
      error_text<c10::ValueError>([] { parsed("<Tensor>"); }),
      "[test] expected a constant of type Any at column 1, but got '<Tensor>'.");
}

TEST(ConstantText, BadTextIsAnErrorWithThePlace) {
  const auto ints = c10::ListType::create(c10::IntType::get());
  expect_contains(error_text<c10::ValueError>([&] { parsed("[1, x]", ints); }), "of type int at column 5");
  expect_contains(error_text<c10::ValueError>([&] { parsed("[1 2]", ints); }), "expected ',' at column 4");
  expect_contains(error_text<c10::ValueError>([] { parsed("\"abc"); }), "expected '\"' at column 5");
  expect_contains(
      error_text<c10::ValueError>([] { parsed(R"("a\q")"); }), "expected one of \\\" \\\\ \\n \\x00 at column 3");
  expect_contains(
      error_text<c10::ValueError>([] { parsed("f33", c10::ScalarTypeType::get()); }), "of type ScalarType at column 1");
  expect_contains(
      error_text<c10::ValueError>([] { parsed("gpu:0", c10::DeviceObjType::get()); }), "of type Device at column 1");
}

} // namespace constant_text_test

} // namespace weft::graph
