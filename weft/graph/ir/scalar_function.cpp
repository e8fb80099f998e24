#include "weft/graph/ir/scalar_function.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <unordered_map>

namespace weft::graph {

namespace {

using c10::IValue;
using Values = c10::ArrayRef<IValue>;

/// Python's numbers: integers stay integers, and a truth value counts as one.
bool is_whole(const IValue& value) {
  return value.isInt() || value.isBool();
}
int64_t whole(const IValue& value) {
  return value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
}
double real(const IValue& value) {
  return is_whole(value) ? static_cast<double>(whole(value)) : value.toDouble();
}

template <class Operation>
IValue arithmetic(Values values, Operation operation) {
  if (is_whole(values[0]) && is_whole(values[1])) {
    return operation(whole(values[0]), whole(values[1]));
  }
  return operation(real(values[0]), real(values[1]));
}

int64_t floor_division(int64_t a, int64_t b) {
  TORCH_CHECK(b != 0, "[floordiv] a divisor must not be zero, in ", a, " // 0.");
  const auto quotient = a / b;
  return quotient * b != a && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}
double floor_division(double a, double b) {
  return std::floor(a / b);
}

IValue power(Values values) {
  if (is_whole(values[0]) && is_whole(values[1]) && whole(values[1]) >= 0) {
    int64_t result = 1;
    for (int64_t i = 0; i < whole(values[1]); ++i) {
      result *= whole(values[0]);
    }
    return result;
  }
  return std::pow(real(values[0]), real(values[1]));
}

const std::unordered_map<std::string, ScalarFunction>& functions() {
  static const auto* all = [] {
    auto* table = new std::unordered_map<std::string, ScalarFunction>();
    const auto add = [&](const char* name, size_t arity, IValue (*call)(Values)) {
      table->emplace(name, ScalarFunction{name, arity, call});
    };
    add("_operator.add", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a + b); }); });
    add("_operator.sub", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a - b); }); });
    add("_operator.mul", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a * b); }); });
    add("_operator.floordiv", 2, [](Values v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(floor_division(a, b)); });
    });
    add("_operator.mod", 2, [](Values v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(a - floor_division(a, b) * b); });
    });
    add("_operator.truediv", 2, [](Values v) { return IValue(real(v[0]) / real(v[1])); });
    add("_operator.pow", 2, power);
    add("_operator.neg", 1, [](Values v) { return is_whole(v[0]) ? IValue(-whole(v[0])) : IValue(-real(v[0])); });
    add("_operator.pos", 1, [](Values v) { return v[0]; });
    add("_operator.eq", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a == b); }); });
    add("_operator.ne", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a != b); }); });
    add("_operator.lt", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a < b); }); });
    add("_operator.le", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a <= b); }); });
    add("_operator.gt", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a > b); }); });
    add("_operator.ge", 2, [](Values v) { return arithmetic(v, [](auto a, auto b) { return IValue(a >= b); }); });
    add("_operator.and_", 2, [](Values v) {
      const bool is_logical = v[0].isBool() && v[1].isBool();
      return is_logical ? IValue(v[0].toBool() && v[1].toBool()) : IValue(whole(v[0]) & whole(v[1]));
    });
    add("_operator.or_", 2, [](Values v) {
      const bool is_logical = v[0].isBool() && v[1].isBool();
      return is_logical ? IValue(v[0].toBool() || v[1].toBool()) : IValue(whole(v[0]) | whole(v[1]));
    });
    add("torch.sym_max", 2, [](Values v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(std::max(a, b)); });
    });
    add("torch.sym_min", 2, [](Values v) {
      return arithmetic(v, [](auto a, auto b) { return IValue(std::min(a, b)); });
    });
    add("torch.sym_not", 1, [](Values v) { return IValue(!v[0].toBool()); });
    add("torch.sym_float", 1, [](Values v) { return IValue(real(v[0])); });
    add("torch.sym_int", 1, [](Values v) {
      return is_whole(v[0]) ? IValue(whole(v[0])) : IValue(static_cast<int64_t>(real(v[0])));
    });
    add("torch.sym_ite", 3, [](Values v) { return v[0].toBool() ? v[1] : v[2]; });
    add("torch._sym_sqrt", 1, [](Values v) { return IValue(std::sqrt(real(v[0]))); });
    add("math.sqrt", 1, [](Values v) { return IValue(std::sqrt(real(v[0]))); });
    add("math.ceil", 1, [](Values v) { return IValue(static_cast<int64_t>(std::ceil(real(v[0])))); });
    add("math.floor", 1, [](Values v) { return IValue(static_cast<int64_t>(std::floor(real(v[0])))); });
    add("math.trunc", 1, [](Values v) { return IValue(static_cast<int64_t>(std::trunc(real(v[0])))); });
    add("round", 1, [](Values v) { return IValue(static_cast<int64_t>(std::nearbyint(real(v[0])))); });
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
