#include "weft/core/dtype_text.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace dtype_text_test {
using c10::ScalarType;
using testing::error_text;

const std::vector<std::pair<ScalarType, std::string>> kWritten = {
    {ScalarType::Double, "f64"},
    {ScalarType::Float, "f32"},
    {ScalarType::Half, "f16"},
    {ScalarType::BFloat16, "bf16"},
    {ScalarType::Float8_e4m3fn, "f8e4m3fn"},
    {ScalarType::Float8_e4m3fnuz, "f8e4m3fnuz"},
    {ScalarType::Float8_e5m2, "f8e5m2"},
    {ScalarType::Float8_e5m2fnuz, "f8e5m2fnuz"},
    {ScalarType::Float8_e8m0fnu, "f8e8m0fnu"},
    {ScalarType::Long, "i64"},
    {ScalarType::Int, "i32"},
    {ScalarType::Short, "i16"},
    {ScalarType::Char, "i8"},
    {ScalarType::UInt64, "u64"},
    {ScalarType::UInt32, "u32"},
    {ScalarType::UInt16, "u16"},
    {ScalarType::Byte, "u8"},
    {ScalarType::Bool, "bool"},
    {ScalarType::ComplexDouble, "c128"},
    {ScalarType::ComplexFloat, "c64"},
    {ScalarType::ComplexHalf, "c32"},
};

const std::string kNames =
    " f64 f32 f16 bf16 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu i64 i32 i16 i8 u64 u32 u16 u8 bool c128 c64 c32";

TEST(DtypeText, ParsesBackToTheSameDtype) {
  for (const auto& [dtype, text] : kWritten) {
    EXPECT_EQ(dtype_text(dtype), text);
    EXPECT_EQ(parse_dtype(text), dtype);
  }
}

TEST(DtypeText, DtypeOutsideTheNotationRaises) {
  EXPECT_EQ(
      error_text<c10::TypeError>([] { dtype_text(ScalarType::QInt8); }),
      "[TensorSpec] a distributed tensor's dtype must be one of" + kNames + ", but got QInt8.");
}

TEST(DtypeText, UnknownTextRaises) {
  for (const auto* text : {"float32", "F32", "f3", ""}) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { parse_dtype(text); }),
        "[parse_dtype] expected one of" + kNames + ", but got '" + text + "'.");
  }
}

} // namespace dtype_text_test

} // namespace weft
