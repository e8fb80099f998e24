#include "weft/graph/exec/input_check.h"

#include "weft/core/dtype_text.h"

#include <ATen/core/Tensor.h>

namespace weft::graph {

namespace {

template <class Elements>
std::string tensor_text(c10::ScalarType dtype, const Elements& sizes, c10::Device device) {
  std::string text = std::string(dtype_text(dtype)) + "[";
  for (size_t d = 0; d < sizes.size(); ++d) {
    text += d == 0 ? "" : ",";
    if constexpr (std::is_same_v<Elements, Sizes>) {
      text += sizes[d].to_string();
    } else {
      text += std::to_string(sizes[d]);
    }
  }
  return text + "]" + (device.is_cpu() ? "" : " on " + c10::DeviceTypeName(device.type(), /*lower_case=*/true));
}

std::string came(const c10::IValue& value) {
  if (value.isTensor()) {
    const auto& tensor = value.toTensor();
    return tensor.defined() ? tensor_text(tensor.scalar_type(), tensor.sizes(), tensor.device())
                            : "an undefined tensor";
  }
  if (value.isString() || value.isInt() || value.isDouble() || value.isBool() || value.isNone()) {
    return c10::str(value);
  }
  return "a value of type " + value.type()->str();
}

std::string text_of(NumberKind kind) {
  return kind == NumberKind::Int ? "an int" : kind == NumberKind::Float ? "a float" : "a bool";
}

bool is_of(NumberKind kind, const c10::IValue& value) {
  return kind == NumberKind::Int ? value.isInt() : kind == NumberKind::Float ? value.isDouble() : value.isBool();
}

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  return a.tagKind() == b.tagKind() && a == b;
}

/// Whether a size is linear in one symbol, so that the symbol follows from the size.
bool is_linear(const Size& size) {
  switch (size.kind()) {
    case Size::Kind::Number:
    case Size::Kind::Symbol:
      return true;
    case Size::Kind::Sum:
    case Size::Kind::Difference:
      return is_linear(size.operands()[0]) && is_linear(size.operands()[1]);
    case Size::Kind::Product:
      return (size.operands()[0].is_number() && is_linear(size.operands()[1])) ||
          (size.operands()[1].is_number() && is_linear(size.operands()[0]));
    default:
      return false;
  }
}

/// The symbol's value for which the size is `value`; none if it does not follow.
std::optional<int64_t> solve(const Size& size, const std::string& symbol, Size::Values values, int64_t value) {
  if (!is_linear(size)) {
    return std::nullopt;
  }
  values[symbol] = 0;
  const auto at_zero = size.evaluate(values);
  values[symbol] = 1;
  const auto slope = size.evaluate(values) - at_zero;
  return slope == 0 ? std::nullopt : std::optional((value - at_zero) / slope);
}

/// The sizes of an input: those of a tensor, or the value of a number. Empty if nothing is expected of them.
c10::SmallVector<int64_t, 5> actual_sizes(const c10::IValue& value, size_t expected) {
  if (expected == 0) {
    return {};
  }
  if (value.isTensor()) {
    const auto sizes = value.toTensor().sizes();
    return {sizes.begin(), sizes.end()};
  }
  return {value.toInt()};
}

} // namespace

/// The values of the symbols in one call, and the input that determined each.
struct InputCheck::Bound {
  Size::Values values;
  std::unordered_map<std::string, size_t> by_input;

  void set(const std::string& symbol, int64_t value, size_t input) {
    values.emplace(symbol, value);
    by_input.emplace(symbol, input);
  }
};

InputCheck::InputCheck(const Program& program) : symbols_(program.symbols) {
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::User) {
      continue;
    }
    if (input.constant) {
      expected_.push_back({input.target, input.constant, {}, {}});
      continue;
    }
    Expected expected{input.value->name(), std::nullopt, input.value->type, {}};
    if (input.value->is_tensor()) {
      expected.sizes = input.value->tensor().sizes;
    } else if (const auto& number = std::get<NumberType>(input.value->type);
               number.kind == NumberKind::Int && !number.expression.empty()) {
      expected.sizes = {Size::parse(number.expression)};
    }
    for (const auto& size : expected.sizes) {
      has_derived_ = has_derived_ || !(size.is_number() || size.is_symbol());
    }
    expected_.push_back(std::move(expected));
  }
}

std::string InputCheck::describe(size_t input) const {
  const auto& name = expected_[input].name;
  return c10::str("input ", input, name.empty() ? "" : " ('" + name + "')");
}

std::string InputCheck::required(size_t input) const {
  const auto& expected = expected_[input];
  if (const auto* tensor = std::get_if<TensorType>(&expected.type)) {
    return tensor_text(tensor->dtype, tensor->sizes, tensor->device);
  }
  const auto& number = std::get<NumberType>(expected.type);
  return text_of(number.kind) + (number.expression.empty() ? "" : " " + number.expression);
}

void InputCheck::check_kind(size_t input, const c10::IValue& value) const {
  const auto& expected = expected_[input];
  if (expected.constant) {
    TORCH_CHECK_VALUE(
        same_constant(*expected.constant, value), "[Executor] ", describe(input), " must be ", came(*expected.constant),
        ", which the program was made for, but got ", came(value), ".");
    return;
  }
  if (const auto* number = std::get_if<NumberType>(&expected.type)) {
    TORCH_CHECK_TYPE(
        is_of(number->kind, value), "[Executor] ", describe(input), " must be ", required(input), ", but got ",
        came(value), ".");
    return;
  }
  const auto& tensor = std::get<TensorType>(expected.type);
  TORCH_CHECK_TYPE(
      value.isTensor() && value.toTensor().defined() && value.toTensor().scalar_type() == tensor.dtype &&
          value.toTensor().device().type() == tensor.device.type(),
      "[Executor] ", describe(input), " must be a tensor ", required(input), ", but got ", came(value), ".");
  TORCH_CHECK_VALUE(
      value.toTensor().dim() == tensor.dim(), "[Executor] ", describe(input), " must be ", required(input),
      ", but got ", came(value), ": it must have ", tensor.dim(), " dims.");
}

void InputCheck::bind(size_t input, const c10::IValue& value, Bound& bound) const {
  const auto& sizes = expected_[input].sizes;
  const auto actual = actual_sizes(value, sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto& size = sizes[d];
    if (size.is_number()) {
      TORCH_CHECK_VALUE(
          actual[d] == size.number(), "[Executor] ", describe(input), " must be ", required(input), ", but got ",
          came(value), ": dim ", d, " must be ", size.number(), ".");
    } else if (size.is_symbol()) {
      const auto found = bound.values.find(size.name());
      if (found == bound.values.end()) {
        bound.set(size.name(), actual[d], input);
        continue;
      }
      TORCH_CHECK_VALUE(
          found->second == actual[d], "[Executor] ", describe(input), " must be ", required(input), ", but got ",
          came(value), ": dim ", d, " must be ", size.name(), " = ", found->second, ", as in ",
          describe(bound.by_input.at(size.name())), ".");
    }
  }
}

void InputCheck::check_derived(size_t input, const c10::IValue& value, Bound& bound) const {
  const auto& sizes = expected_[input].sizes;
  const auto actual = actual_sizes(value, sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto& size = sizes[d];
    if (size.is_number() || size.is_symbol()) {
      continue;
    }
    std::vector<std::string> unknown;
    for (const auto& symbol : size.symbols()) {
      if (bound.values.count(symbol) == 0) {
        unknown.push_back(symbol);
      }
    }
    if (unknown.size() == 1) {
      if (const auto solved = solve(size, unknown[0], bound.values, actual[d])) {
        bound.set(unknown[0], *solved, input);
        unknown.clear();
      }
    }
    // A symbol that no input determines is not needed: the operators read sizes from tensors.
    if (!unknown.empty()) {
      continue;
    }
    const auto wanted = size.evaluate(bound.values);
    std::string known;
    for (const auto& symbol : size.symbols()) {
      known += c10::str(known.empty() ? "" : ", ", symbol, " = ", bound.values.at(symbol));
    }
    TORCH_CHECK_VALUE(
        wanted == actual[d], "[Executor] ", describe(input), " must be ", required(input), ", but got ", came(value),
        ": dim ", d, " must be ", size.to_string(), " = ", wanted, " with ", known, ".");
  }
}

void InputCheck::check_ranges(c10::ArrayRef<c10::IValue> inputs, const Bound& bound) const {
  for (const auto& [name, value] : bound.values) {
    const auto found = symbols_.find(name);
    if (found == symbols_.end()) {
      continue;
    }
    // torch.export specializes the sizes 0 and 1 and writes 2 as the minimum of a symbol; programs run with 0 and 1
    // too.
    const auto min = found->second.min.value_or(0) > 2 ? found->second.min : std::nullopt;
    const auto max = found->second.max;
    const auto input = bound.by_input.at(name);
    TORCH_CHECK_VALUE(
        value >= min.value_or(value) && value <= max.value_or(value), "[Executor] ", describe(input), " must be ",
        required(input), " with ", name, min ? c10::str(" at least ", *min) : "", min && max ? " and" : "",
        max ? c10::str(" at most ", *max) : "", ", but got ", came(inputs[input]), ": ", name, " is ", value, ".");
  }
}

void InputCheck::check(c10::ArrayRef<c10::IValue> inputs) const {
  if (inputs.size() != expected_.size()) {
    std::string names;
    for (size_t i = 0; i < expected_.size(); ++i) {
      names += (i == 0 ? "" : ", ") + (expected_[i].name.empty() ? std::to_string(i) : expected_[i].name);
    }
    TORCH_CHECK_VALUE(
        false, "[Executor] ", expected_.size(), " inputs are required", names.empty() ? "" : " (" + names + ")",
        ", but got ", inputs.size(), ".");
  }
  Bound bound;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_kind(i, inputs[i]);
    bind(i, inputs[i], bound);
  }
  if (has_derived_) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      check_derived(i, inputs[i], bound);
    }
  }
  check_ranges(inputs, bound);
}

} // namespace weft::graph
