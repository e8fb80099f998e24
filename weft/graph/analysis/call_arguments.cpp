#include "weft/graph/analysis/call_arguments.h"

namespace weft::graph {

const Argument* CallArguments::given(std::string_view name) const {
  const auto position = node_.op()->schema().argumentIndexWithName(name);
  return position ? &node_.arguments()[*position] : nullptr;
}

std::optional<c10::IValue> CallArguments::constant(std::string_view name) const {
  const auto& schema = node_.op()->schema();
  const auto position = schema.argumentIndexWithName(name);
  if (!position) {
    return std::nullopt;
  }
  const auto& argument = node_.arguments()[*position];
  if (argument.is_constant()) {
    return argument.constant();
  }
  return argument.is_absent() ? schema.arguments()[*position].default_value() : std::nullopt;
}

Value* CallArguments::tensor(std::string_view name) const {
  const auto* argument = given(name);
  auto* value = argument != nullptr && argument->is_operand() ? node_.operand(argument->operand()) : nullptr;
  return value != nullptr && value->is_tensor() ? value : nullptr;
}

std::vector<Value*> CallArguments::tensors(std::string_view name) const {
  std::vector<Value*> values;
  const auto* argument = given(name);
  if (argument == nullptr) {
    return values;
  }
  for (const auto& element : argument->elements()) {
    auto* value = element.is_operand() ? node_.operand(element.operand()) : nullptr;
    if (value == nullptr || !value->is_tensor()) {
      return {};
    }
    values.push_back(value);
  }
  return values;
}

std::optional<int64_t> CallArguments::integer(std::string_view name) const {
  const auto value = constant(name);
  return value && value->isInt() ? std::optional(value->toInt()) : std::nullopt;
}

std::optional<std::vector<int64_t>> CallArguments::integers(std::string_view name) const {
  const auto value = constant(name);
  return value && value->isIntList() ? std::optional(value->toIntVector()) : std::nullopt;
}

std::optional<std::string> CallArguments::text(std::string_view name) const {
  const auto value = constant(name);
  return value && value->isString() ? std::optional(value->toStringRef()) : std::nullopt;
}

std::optional<Size> CallArguments::size(std::string_view name) const {
  const auto* argument = given(name);
  if (argument != nullptr && argument->is_operand()) {
    const auto* number = std::get_if<NumberType>(&node_.operand(argument->operand())->type);
    return number != nullptr && number->kind == NumberKind::Int && !number->expression.empty()
        ? std::optional(Size::parse(number->expression))
        : std::nullopt;
  }
  const auto value = integer(name);
  return value ? std::optional<Size>(*value) : std::nullopt;
}

bool CallArguments::has(std::string_view name) const {
  const auto* argument = given(name);
  if (argument != nullptr && (argument->is_operand() || argument->is_list())) {
    return true;
  }
  const auto value = constant(name);
  return value && !value->isNone();
}

} // namespace weft::graph
