#include "weft/propagation/linear_numbers.h"

#include <algorithm>
#include <cmath>

namespace weft {

bool keeps_linear(const c10::FunctionSchema& schema, const at::Scalar& number) {
  const bool divides = schema.name().find("div") != std::string::npos;
  if (divides && number.equal(0)) {
    return false;
  }
  if (number.isComplex()) {
    const auto value = number.toComplexDouble();
    return std::isfinite(value.real()) && std::isfinite(value.imag());
  }
  return !number.isFloatingPoint() || std::isfinite(number.toDouble());
}

bool keep_linear(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments) {
  return std::all_of(arguments.begin(), arguments.end(), [&](const c10::IValue& value) {
    if (value.isScalar()) {
      return keeps_linear(schema, value.toScalar());
    }
    return !value.isList() || value.isIntList() || value.isTensorList() || value.isOptionalTensorList() ||
        keep_linear(schema, value.toListRef());
  });
}

} // namespace weft
