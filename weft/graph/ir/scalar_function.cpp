#include "weft/graph/ir/scalar_function.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <unordered_map>

namespace weft::graph {

namespace {

using c10::IValue;
using Numbers = c10::ArrayRef<IValue>;

/// Converts as Python does: integers stay integers, and a bool counts as an integer.
bool is_integer_value(const IValue& value) {
  return value.isInt() || value.isBool();
}
int64_t integer_value(const IValue& value) {
  return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
}
double real(const IValue& value) {
  return is_integer_value(value) ? static_cast<double>(integer_value(value)) : value.toDouble();
}

template <class Operation>
IValue arithmetic(Numbers values, Operation operation) {
  if (is_integer_value(values[0]) && is_integer_value(values[1])) {
    return operation(integer_value(values[0]), integer_value(values[1]));
  }
  return operation(real(values[0]), real(values[1]));
}

/// Raises on overflow: Python's integers are unbounded, these have 64 bits.
template <class... Numbers>
int64_t checked(bool overflows, const int64_t& result, const char* name, Numbers... numbers) {
  TORCH_CHECK_VALUE(
      !overflows, "[", name, "] a result of at most 64 bits is required, but got more, of ", numbers..., ".");
  return result;
}
int64_t add(int64_t a, int64_t b) {
  int64_t result = 0;
  return checked(__builtin_add_overflow(a, b, &result), result, "add", a, " and ", b);
}
double add(double a, double b) {
  return a + b;
}
int64_t subtract(int64_t a, int64_t b) {
  int64_t result = 0;
  return checked(__builtin_sub_overflow(a, b, &result), result, "sub", a, " and ", b);
}
double subtract(double a, double b) {
  return a - b;
}
int64_t multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  return checked(__builtin_mul_overflow(a, b, &result), result, "mul", a, " and ", b);
}
double multiply(double a, double b) {
  return a * b;
}

template <class Number>
void check_divisor(Number a, Number b) {
  TORCH_CHECK_VALUE(b != 0, "[division] a divisor other than zero is required, but got ", a, " by 0.");
}

int64_t remainder(int64_t a, int64_t b) {
  check_divisor(a, b);
  if (b == -1) {
    return 0; // avoids the overflow of INT64_MIN % -1
  }
  const auto rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double remainder(double a, double b) {
  check_divisor(a, b);
  const auto rest = std::fmod(a, b);
  return rest == 0 ? std::copysign(0.0, b) : (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t floor_division(int64_t a, int64_t b) {
  check_divisor(a, b);
  if (b == -1) {
    return subtract(int64_t{0}, a);
  }
  const auto quotient = a / b;
  return quotient * b != a && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
double floor_division(double a, double b) {
  // Computes the exact quotient where a / b would be rounded up to the next integer.
  const auto quotient = (a - remainder(a, b)) / b;
  const auto below = std::floor(quotient);
  return quotient - below > 0.5 ? below + 1 : below;
}

double true_division(double a, double b) {
  check_divisor(a, b);
  return a / b;
}

IValue power(Numbers values) {
  if (!is_integer_value(values[0]) || !is_integer_value(values[1]) || integer_value(values[1]) < 0) {
    const auto base = real(values[0]);
    const auto exponent = real(values[1]);
    TORCH_CHECK_VALUE(
        base != 0 || exponent >= 0, "[pow] a base other than zero is required, but got 0 ** ", exponent, ".");
    TORCH_CHECK_VALUE(
        base >= 0 || std::isnan(base) || !std::isfinite(exponent) || std::floor(exponent) == exponent,
        "[pow] a real result is required, but got ", base, " ** ", exponent, ".");
    return std::pow(base, exponent);
  }
  int64_t result = 1;
  auto base = integer_value(values[0]);
  for (auto exponent = integer_value(values[1]); exponent > 0;) {
    if (exponent % 2 == 1) {
      result = multiply(result, base);
    }
    exponent /= 2;
    base = exponent > 0 ? multiply(base, base) : base;
  }
  return result;
}

/// Returns an integer unchanged, and a float rounded by `rounding`.
template <class Rounding>
IValue to_integer(const IValue& value, Rounding rounding) {
  if (is_integer_value(value)) {
    return integer_value(value);
  }
  const auto rounded = rounding(value.toDouble());
  constexpr double kEnd = 9223372036854775808.0;
  TORCH_CHECK_VALUE(
      rounded >= -kEnd && rounded < kEnd, "[int] a float that an integer of 64 bits can hold is required, but got ",
      value.toDouble(), ".");
  return static_cast<int64_t>(rounded);
}

const std::unordered_map<std::string, ScalarFunction>& functions() {
  static const auto* all = [] {
    auto* table = new std::unordered_map<std::string, ScalarFunction>();
    const auto define = [&](const char* name, size_t arity, IValue (*call)(Numbers)) {
      table->emplace(name, ScalarFunction{name, arity, call});
    };
    define(
        "_operator.add", 2, [](Numbers v) { return arithmetic(v, [](auto a, auto b) { return IValue(add(a, b)); }); });
    define("_operator.sub", 2, [](Numbers v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(subtract(a, b)); });
    });
    define("_operator.mul", 2, [](Numbers v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(multiply(a, b)); });
    });
    define("_operator.floordiv", 2, [](Numbers v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(floor_division(a, b)); });
    });
    define("_operator.mod", 2, [](Numbers v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(remainder(a, b)); });
    });
    define("_operator.truediv", 2, [](Numbers v) { return IValue(true_division(real(v[0]), real(v[1]))); });
    define("_operator.pow", 2, power);
    define("_operator.neg", 1, [](Numbers v) {
      return is_integer_value(v[0]) ? IValue(subtract(int64_t{0}, integer_value(v[0]))) : IValue(-real(v[0]));
    });
    define("_operator.pos", 1, [](Numbers v) { return is_integer_value(v[0]) ? IValue(integer_value(v[0])) : v[0]; });
    define("_operator.eq", 2, [](Numbers v) { return arithmetic(v, [](auto a, auto b) { return IValue(a == b); }); });
    define("_operator.ne", 2, [](Numbers v) { return arithmetic(v, [](auto a, auto b) { return IValue(a != b); }); });
    define("_operator.lt", 2, [](Numbers v) { return arithmetic(v, [](auto a, auto b) { return IValue(a < b); }); });
    define("_operator.le", 2, [](Numbers v) { return arithmetic(v, [](auto a, auto b) { return IValue(a <= b); }); });
    define("_operator.gt", 2, [](Numbers v) { return arithmetic(v, [](auto a, auto b) { return IValue(a > b); }); });
    define("_operator.ge", 2, [](Numbers v) { return arithmetic(v, [](auto a, auto b) { return IValue(a >= b); }); });
    define("_operator.and_", 2, [](Numbers v) {
      const bool is_logical = v[0].isBool() && v[1].isBool();
      return is_logical ? IValue(v[0].toBool() && v[1].toBool()) : IValue(integer_value(v[0]) & integer_value(v[1]));
    });
    define("_operator.or_", 2, [](Numbers v) {
      const bool is_logical = v[0].isBool() && v[1].isBool();
      return is_logical ? IValue(v[0].toBool() || v[1].toBool()) : IValue(integer_value(v[0]) | integer_value(v[1]));
    });
    define("torch.sym_max", 2, [](Numbers v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(std::max(a, b)); });
    });
    define("torch.sym_min", 2, [](Numbers v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(std::min(a, b)); });
    });
    define("torch.sym_not", 1, [](Numbers v) { return IValue(!v[0].toBool()); });
    define("torch.sym_float", 1, [](Numbers v) { return IValue(real(v[0])); });
    define("torch.sym_int", 1, [](Numbers v) { return to_integer(v[0], [](double a) { return std::trunc(a); }); });
    define("torch.sym_ite", 3, [](Numbers v) { return v[0].toBool() ? v[1] : v[2]; });
    define("torch._sym_sqrt", 1, [](Numbers v) { return IValue(std::sqrt(real(v[0]))); });
    define("math.sqrt", 1, [](Numbers v) { return IValue(std::sqrt(real(v[0]))); });
    define("math.ceil", 1, [](Numbers v) { return to_integer(v[0], [](double a) { return std::ceil(a); }); });
    define("math.floor", 1, [](Numbers v) { return to_integer(v[0], [](double a) { return std::floor(a); }); });
    define("math.trunc", 1, [](Numbers v) { return to_integer(v[0], [](double a) { return std::trunc(a); }); });
    define("round", 1, [](Numbers v) { return to_integer(v[0], [](double a) { return std::nearbyint(a); }); });
    return table;
  }();
  return *all;
}

} // namespace

const ScalarFunction* find_scalar_function(std::string_view name) {
  const auto found = functions().find(std::string(name));
  return found == functions().end() ? nullptr : &found->second;
}

} // namespace weft::graph
