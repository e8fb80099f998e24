#include "tests/support/program_builder.h"

namespace weft::testing {

using namespace graph;

namespace {

c10::OperatorHandle find_operator(const std::string& name) {
  const auto dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
}

Type type_of(const c10::TypePtr& type) {
  switch (type->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return NumberType{NumberKind::Int, {}};
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return NumberType{NumberKind::Float, {}};
    case c10::TypeKind::BoolType:
      return NumberType{NumberKind::Bool, {}};
    default:
      return TensorType{};
  }
}

} // namespace

Value* ProgramBuilder::input(const std::string& name, c10::ScalarType dtype, Sizes sizes) {
  auto* value = program_->graph->add_input(name, contiguous_type(dtype, std::move(sizes)));
  program_->inputs.push_back({.target = {}, .value = value});
  return value;
}

Value* ProgramBuilder::number(const std::string& name, NumberKind kind, std::string expression) {
  auto* value = program_->graph->add_input(name, NumberType{kind, std::move(expression)});
  program_->inputs.push_back({.target = {}, .value = value});
  return value;
}

void ProgramBuilder::constant_input(const std::string& name, c10::IValue value) {
  program_->inputs.push_back({.target = name, .constant = std::move(value)});
}

Value* ProgramBuilder::weight(InputKind kind, const std::string& name, at::Tensor tensor) {
  Sizes sizes(tensor.sizes().begin(), tensor.sizes().end());
  auto* value = program_->graph->add_input(name, contiguous_type(tensor.scalar_type(), std::move(sizes)));
  program_->inputs.push_back({.kind = kind, .target = name, .value = value});
  program_->tensors.emplace(name, std::move(tensor));
  return value;
}

Value* ProgramBuilder::parameter(const std::string& name, at::Tensor tensor) {
  return weight(InputKind::Parameter, name, std::move(tensor));
}

Value* ProgramBuilder::buffer(const std::string& name, at::Tensor tensor) {
  return weight(InputKind::Buffer, name, std::move(tensor));
}

Argument ProgramBuilder::argument(const Part& part, std::vector<Value*>& operands) {
  if (part.is_list_) {
    std::vector<Argument> elements;
    for (const auto& element : part.elements_) {
      elements.push_back(argument(element, operands));
    }
    return Argument::list(std::move(elements));
  }
  if (part.value_ != nullptr) {
    operands.push_back(part.value_);
    return Argument::operand(operands.size() - 1);
  }
  return Argument(part.constant_);
}

Node* ProgramBuilder::node(const std::string& target, Parts parts, std::vector<int64_t> lists) {
  Arguments arguments;
  std::vector<Value*> operands;
  for (const auto& part : parts) {
    arguments.push_back(argument(part, operands));
  }
  if (const auto* function = find_scalar_function(target)) {
    return program_->graph->insert(nullptr, function, std::move(arguments), operands, {{NumberType{}}});
  }
  const auto op = find_operator(target);
  arguments.resize(op.schema().arguments().size());
  OutputTypes outputs{{}, lists, {}};
  for (size_t i = 0; i < op.schema().returns().size(); ++i) {
    const auto count = lists.empty() || lists[i] == Node::kSingle ? 1 : lists[i];
    for (int64_t k = 0; k < count; ++k) {
      outputs.types.emplace_back(type_of(op.schema().returns()[i].type()));
    }
  }
  return program_->graph->insert(nullptr, op, std::move(arguments), operands, std::move(outputs));
}

Value* ProgramBuilder::call(const std::string& target, Parts arguments) {
  return node(target, std::move(arguments))->output();
}

std::vector<Value*> ProgramBuilder::call_list(const std::string& target, Parts arguments, int64_t count) {
  const auto& outputs = node(target, std::move(arguments), {count})->outputs();
  return {outputs.begin(), outputs.end()};
}

void ProgramBuilder::output(Value* value, OutputKind kind, const std::string& target) {
  program_->outputs.push_back({.kind = kind, .target = target, .operand = returned_.size()});
  returned_.push_back(value);
}

void ProgramBuilder::constant_output(c10::IValue value) {
  program_->outputs.push_back({.target = {}, .constant = std::move(value)});
}

std::shared_ptr<const Program> ProgramBuilder::finish() {
  program_->graph->set_return(returned_);
  return program_;
}

} // namespace weft::testing
