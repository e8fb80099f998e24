#include "weft/graph/analysis/graph_builder.h"

#include <c10/util/Exception.h>
#include <c10/util/overloaded.h>

namespace weft::graph {

namespace {

std::string function_name(Size::Kind kind) {
  switch (kind) {
    case Size::Kind::Sum:
      return "_operator.add";
    case Size::Kind::Difference:
      return "_operator.sub";
    case Size::Kind::Product:
      return "_operator.mul";
    case Size::Kind::FloorDivision:
      return "_operator.floordiv";
    case Size::Kind::Remainder:
      return "_operator.mod";
    case Size::Kind::Power:
      return "_operator.pow";
    case Size::Kind::Minimum:
      return "torch.sym_min";
    default:
      return "torch.sym_max";
  }
}

} // namespace

c10::OperatorHandle find_operator(const std::string& full_name) {
  const auto dot = full_name.find('.');
  const auto overload = dot == std::string::npos ? std::string() : full_name.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(full_name.substr(0, dot).c_str(), overload.c_str());
}

bool GraphBuilder::knows(const Size& size) const {
  for (const auto& symbol : size.symbols()) {
    if (numbers_.count(symbol) == 0) {
      return false;
    }
  }
  return true;
}

Value* GraphBuilder::number(const Size& size) {
  const auto text = size.to_string();
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) {
    return found->second;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      !size.is_symbol(), "[localize] the size ", text,
      " must be that of a dim of a replicated input, which every rank knows. Leave that input replicated.");
  std::vector<Value*> operands;
  Arguments arguments;
  for (const auto& operand : size.operands()) {
    arguments.push_back(size_argument(operand, operands));
  }
  auto* node = graph_.insert(
      before_, find_scalar_function(function_name(size.kind())), std::move(arguments), operands,
      {.types = {NumberType{NumberKind::Int, text}}});
  node->origin = origin_;
  return numbers_[text] = node->output();
}

Argument GraphBuilder::size_argument(const Size& size, std::vector<Value*>& operands) {
  if (size.is_number()) {
    return c10::IValue(size.number());
  }
  operands.push_back(number(size));
  return graph::Argument::operand(operands.size() - 1);
}

Argument GraphBuilder::argument(const Argument& given, std::vector<Value*>& operands) {
  const auto operand = [&](Value* value) {
    operands.push_back(value);
    return graph::Argument::operand(operands.size() - 1);
  };
  return std::visit(
      c10::overloaded(
          [&](Value* value) { return operand(value); }, [](const c10::IValue& value) { return graph::Argument(value); },
          [&](const Size& size) { return size_argument(size, operands); },
          [&](const Sizes& sizes) {
            std::vector<graph::Argument> elements;
            std::vector<int64_t> numbers;
            for (const auto& size : sizes) {
              elements.push_back(size_argument(size, operands));
              if (size.is_number()) {
                numbers.push_back(size.number());
              }
            }
            return numbers.size() == sizes.size() ? graph::Argument(c10::IValue(numbers))
                                                  : graph::Argument::list(std::move(elements));
          },
          [](Absent) { return graph::Argument(); },
          [&](const std::vector<Value*>& values) {
            std::vector<graph::Argument> elements;
            for (auto* value : values) {
              elements.push_back(operand(value));
            }
            return graph::Argument::list(std::move(elements));
          }),
      given);
}

const c10::OperatorHandle& GraphBuilder::operator_named(const std::string& op) {
  const auto found =
      std::find_if(operators_.begin(), operators_.end(), [&](const auto& known) { return known.first == op; });
  return found != operators_.end() ? found->second : operators_.emplace_back(op, find_operator(op)).second;
}

Node* GraphBuilder::insert(const std::string& op, const std::vector<Argument>& arguments, OutputTypes outputs) {
  const auto handle = operator_named(op);
  std::vector<Value*> operands;
  Arguments given;
  given.reserve(handle.schema().arguments().size());
  for (const auto& each : arguments) {
    given.push_back(argument(each, operands));
  }
  given.resize(handle.schema().arguments().size());
  auto* node = graph_.insert(before_, handle, std::move(given), operands, std::move(outputs));
  node->origin = origin_;
  return node;
}

Value* GraphBuilder::call(
    const std::string& op,
    const std::vector<Argument>& arguments,
    TensorType type,
    std::string name) {
  return insert(op, arguments, {.types = {std::move(type)}, .names = {std::move(name)}})->output();
}

std::vector<Value*> GraphBuilder::list(
    const std::string& op,
    const std::vector<Argument>& arguments,
    const std::vector<TensorType>& types) {
  OutputTypes outputs;
  outputs.types.assign(types.begin(), types.end());
  outputs.lists = {static_cast<int64_t>(types.size())};
  const auto& made = insert(op, arguments, std::move(outputs))->outputs();
  return {made.begin(), made.end()};
}

} // namespace weft::graph
