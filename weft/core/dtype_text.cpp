#include "weft/core/dtype_text.h"

#include <c10/util/Exception.h>

#include <array>
#include <string>
#include <utility>

namespace weft {

namespace {

using c10::ScalarType;

constexpr std::array<std::pair<std::string_view, ScalarType>, 21> kDtypes = {{
    {"f64", ScalarType::Double},
    {"f32", ScalarType::Float},
    {"f16", ScalarType::Half},
    {"bf16", ScalarType::BFloat16},
    {"f8e4m3fn", ScalarType::Float8_e4m3fn},
    {"f8e4m3fnuz", ScalarType::Float8_e4m3fnuz},
    {"f8e5m2", ScalarType::Float8_e5m2},
    {"f8e5m2fnuz", ScalarType::Float8_e5m2fnuz},
    {"f8e8m0fnu", ScalarType::Float8_e8m0fnu},
    {"i64", ScalarType::Long},
    {"i32", ScalarType::Int},
    {"i16", ScalarType::Short},
    {"i8", ScalarType::Char},
    {"u64", ScalarType::UInt64},
    {"u32", ScalarType::UInt32},
    {"u16", ScalarType::UInt16},
    {"u8", ScalarType::Byte},
    {"bool", ScalarType::Bool},
    {"c128", ScalarType::ComplexDouble},
    {"c64", ScalarType::ComplexFloat},
    {"c32", ScalarType::ComplexHalf},
}};

std::string all_names() {
  std::string names;
  for (const auto& [name, dtype] : kDtypes) {
    names += " " + std::string(name);
  }
  return names;
}

} // namespace

std::string_view dtype_text(ScalarType dtype) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) {
      return name;
    }
  }
  TORCH_CHECK_TYPE(
      false, "[TensorSpec] a distributed tensor's dtype must be one of", all_names(), ", but got ", dtype, ".");
}

ScalarType parse_dtype(std::string_view text) {
  for (const auto& [name, dtype] : kDtypes) {
    if (name == text) {
      return dtype;
    }
  }
  TORCH_CHECK_VALUE(false, "[parse_dtype] expected one of", all_names(), ", but got '", text, "'.");
}

} // namespace weft
