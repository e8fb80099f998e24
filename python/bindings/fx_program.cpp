#include "python/bindings/fx_program.h"

#include "python/bindings/fx_constants.h"
#include "weft/graph/ir/constant_text.h"
#include "weft/graph/ir/schema_match.h"
#include "weft/graph/ir/unknown_call.h"
#include "weft/graph/overlap/agreement.h"
#include "weft/graph/pt2/sympy_text.h"

namespace weft::python {

namespace {

using graph::Argument;
using graph::Value;

graph::NumberKind number_kind(const std::string& name) {
  return name == "float" ? graph::NumberKind::Float : name == "bool" ? graph::NumberKind::Bool : graph::NumberKind::Int;
}

std::vector<size_t> operand_ids(const graph::Node& node) {
  std::vector<size_t> ids;
  for (size_t i = 0; i < node.operand_count(); ++i) {
    ids.push_back(node.operand(i)->id());
  }
  return ids;
}

bool has_values(py::handle given) {
  if (py::isinstance<FxValue>(given)) {
    return true;
  }
  if (!py::isinstance<py::list>(given) && !py::isinstance<py::tuple>(given)) {
    return false;
  }
  return std::any_of(given.begin(), given.end(), [](py::handle each) { return has_values(each); });
}

bool may_return(const c10::FunctionSchema& schema, const py::list& returns) {
  return !schema.is_varret() && schema.returns().size() == returns.size();
}

} // namespace

void FxProgram::add_symbol(const std::string& name, int64_t hint) {
  program_.symbols[name].hint = hint;
}

graph::Size FxProgram::size_from(py::handle size) {
  if (PyLong_Check(size.ptr())) {
    return size.cast<int64_t>();
  }
  const auto text = size.cast<std::string>();
  if (const auto known = graph::size_of_sympy(text)) {
    for (const auto& symbol : known->symbols()) {
      program_.symbols.try_emplace(symbol);
    }
    return *known;
  }
  const auto [entry, is_new] = unknown_sizes_.try_emplace(text, c10::str("size_", unknown_sizes_.size()));
  program_.symbols.try_emplace(entry->second);
  return graph::Size::symbol(entry->second);
}

std::optional<graph::Type> FxProgram::type_from(py::handle type) {
  if (type.is_none()) {
    return std::nullopt;
  }
  const auto fields = type.cast<py::tuple>();
  if (fields.size() == 2) {
    return graph::NumberType{number_kind(fields[0].cast<std::string>()), fields[1].cast<std::string>()};
  }
  graph::TensorType tensor;
  tensor.dtype = fields[0].cast<at::ScalarType>();
  for (const auto size : fields[1]) {
    tensor.sizes.push_back(size_from(size));
  }
  for (const auto stride : fields[2]) {
    tensor.strides.push_back(size_from(stride));
  }
  tensor.device = fields[3].cast<at::Device>();
  return tensor;
}

FxValue FxProgram::keep(Value* value) {
  values_[value->id()] = value;
  return {value->id()};
}

FxValue FxProgram::add_input(const std::string& name, py::handle type) {
  auto* value = program_.graph->add_input(name, *type_from(type));
  graph::Input input;
  input.value = value;
  program_.inputs.push_back(std::move(input));
  return keep(value);
}

std::optional<Argument> FxProgram::read_argument(
    py::handle given,
    const c10::TypePtr& type,
    std::vector<Value*>& operands) const {
  if (py::isinstance<FxValue>(given)) {
    operands.push_back(values_.at(given.cast<FxValue>().id));
    return Argument::operand(operands.size() - 1);
  }
  if (!has_values(given)) {
    auto constant = constant_of(given, type);
    return constant ? std::optional<Argument>(std::move(*constant)) : std::nullopt;
  }
  std::vector<Argument> elements;
  for (const auto each : given) {
    auto element = read_argument(each, graph::element_type(*type), operands);
    if (!element || element->is_list()) {
      return std::nullopt;
    }
    elements.push_back(std::move(*element));
  }
  return Argument::list(std::move(elements));
}

std::optional<graph::Arguments> FxProgram::read_arguments(
    const c10::FunctionSchema& schema,
    const py::tuple& args,
    const py::dict& kwargs,
    std::vector<Value*>& operands) const {
  graph::Arguments arguments(schema.arguments().size());
  size_t found = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& known = schema.arguments()[i];
    const auto name = py::str(known.name());
    if (i < args.size() || kwargs.contains(name)) {
      auto argument =
          read_argument(i < args.size() ? py::object(args[i]) : py::object(kwargs[name]), known.real_type(), operands);
      if (!argument) {
        return std::nullopt;
      }
      arguments[i] = std::move(*argument);
      ++found;
    } else if (!known.default_value()) {
      return std::nullopt;
    }
  }
  return found == args.size() + kwargs.size() ? std::optional(std::move(arguments)) : std::nullopt;
}

std::optional<graph::Arguments> FxProgram::read_numbers(const py::tuple& args, std::vector<Value*>& operands) const {
  graph::Arguments arguments;
  for (const auto each : args) {
    auto argument = read_argument(each, c10::NumberType::get(), operands);
    if (!argument || argument->is_list()) {
      return std::nullopt;
    }
    arguments.push_back(std::move(*argument));
  }
  return arguments;
}

void FxProgram::collect(py::handle given, std::vector<Value*>& tensors, std::vector<Value*>& numbers) const {
  if (py::isinstance<FxValue>(given)) {
    auto* value = values_.at(given.cast<FxValue>().id);
    (value->is_tensor() ? tensors : numbers).push_back(value);
  } else if (py::isinstance<py::dict>(given)) {
    collect(given.attr("values")().cast<py::list>(), tensors, numbers);
  } else if (py::isinstance<py::slice>(given)) {
    for (const char* name : {"start", "stop", "step"}) {
      collect(given.attr(name), tensors, numbers);
    }
  } else if (py::isinstance<py::list>(given) || py::isinstance<py::tuple>(given)) {
    for (const auto each : given) {
      collect(each, tensors, numbers);
    }
  }
}

FxProgram::Called FxProgram::call(
    const std::string& op,
    const std::string& overload,
    const py::tuple& args,
    const py::dict& kwargs,
    const py::list& returns,
    const std::vector<std::string>& names,
    const graph::Origin& origin) {
  graph::OutputTypes outputs;
  for (const auto result : returns) {
    if (py::isinstance<py::list>(result)) {
      for (const auto each : result) {
        outputs.types.push_back(type_from(each));
      }
      outputs.lists.push_back(static_cast<int64_t>(py::len(result)));
    } else {
      outputs.types.push_back(type_from(result));
      outputs.lists.push_back(graph::Node::kSingle);
    }
  }
  outputs.names.assign(names.begin(), names.end());

  std::vector<Value*> operands;
  std::optional<graph::Target> target;
  std::optional<graph::Arguments> arguments;
  const auto found = c10::Dispatcher::singleton().findSchema({op, overload});
  const auto* function = graph::find_scalar_function(op);
  if (found && may_return(found->schema(), returns)) {
    arguments = read_arguments(found->schema(), args, kwargs, operands);
    target = *found;
  } else if (function != nullptr && args.size() == function->arity && kwargs.empty() && returns.size() == 1) {
    arguments = read_numbers(args, operands);
    target = function;
  }
  if (!arguments) {
    operands.clear();
    std::vector<Value*> numbers;
    collect(args, operands, numbers);
    collect(kwargs, operands, numbers);
    const auto list = [](size_t begin, size_t end, const c10::TypePtr& element) {
      std::vector<Argument> elements;
      for (size_t i = begin; i < end; ++i) {
        elements.push_back(Argument::operand(i));
      }
      return elements.empty() ? Argument(c10::impl::GenericList(element)) : Argument::list(std::move(elements));
    };
    const auto tensors = operands.size();
    operands.insert(operands.end(), numbers.begin(), numbers.end());
    arguments =
        graph::Arguments{list(0, tensors, c10::TensorType::get()), list(tensors, operands.size(), c10::AnyType::get())};
    target = graph::unknown_call();
    outputs.lists = {static_cast<int64_t>(outputs.types.size())};
  }
  auto* node = program_.graph->insert(nullptr, *target, std::move(*arguments), operands, std::move(outputs));
  node->origin = origin;
  given_operands_[node->id()] = operand_ids(*node);

  Called called;
  called.id = node->id();
  size_t at = 0;
  const auto next = [&]() -> py::object {
    auto* value = node->output(at++);
    return value == nullptr ? py::none() : py::cast(keep(value));
  };
  for (const auto result : returns) {
    if (py::isinstance<py::list>(result)) {
      py::list list;
      for (size_t i = 0; i < py::len(result); ++i) {
        list.append(next());
      }
      called.results.append(list);
    } else {
      called.results.append(next());
    }
  }
  return called;
}

size_t FxProgram::finish(const std::vector<FxValue>& values) {
  std::vector<Value*> returned;
  for (const auto& value : values) {
    graph::Output output;
    output.operand = returned.size();
    program_.outputs.push_back(std::move(output));
    returned.push_back(values_.at(value.id));
  }
  auto* node = program_.graph->set_return(returned);
  given_operands_[node->id()] = operand_ids(*node);
  return node->id();
}

graph::OverlapDecisions FxProgram::micro_pipeline(const graph::OverlapOptions& options) {
  return graph::micro_pipeline_together(program_, options);
}

std::vector<FxNode> FxProgram::nodes() const {
  std::vector<FxNode> nodes;
  for (const auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
    const auto given = given_operands_.find(node->id());
    if (given == given_operands_.end()) {
      nodes.push_back(new_node(*node));
      continue;
    }
    FxNode known;
    known.id = node->id();
    for (size_t i = 0; i < node->operand_count(); ++i) {
      if (node->operand(i)->id() != given->second[i]) {
        known.replaced[py::int_(given->second[i])] = FxValue{node->operand(i)->id()};
      }
    }
    nodes.push_back(std::move(known));
  }
  return nodes;
}

py::object FxProgram::object_from(const graph::Node& node, const Argument& argument, const c10::TypePtr& type) const {
  if (argument.is_operand()) {
    return py::cast(FxValue{node.operand(argument.operand())->id()});
  }
  if (!argument.is_list()) {
    return object_of(argument.constant(), type);
  }
  py::list list;
  for (const auto& each : argument.elements()) {
    list.append(object_from(node, each, graph::element_type(*type)));
  }
  return list;
}

FxNode FxProgram::new_node(const graph::Node& node) const {
  TORCH_INTERNAL_ASSERT(node.op() != nullptr, "a pass over an fx graph inserts operators, but got ", target_name(node));
  FxNode made;
  made.id = node.id();
  const auto& schema = node.op()->schema();
  made.op = schema.name();
  made.overload = schema.overload_name();
  py::list args;
  for (size_t i = 0; i < node.arguments().size(); ++i) {
    const auto& argument = node.arguments()[i];
    const auto& known = schema.arguments()[i];
    if (argument.is_absent()) {
      continue;
    }
    auto object = object_from(node, argument, known.real_type());
    if (!known.kwarg_only() && py::len(args) == i) {
      args.append(std::move(object));
    } else {
      made.kwargs[py::str(known.name())] = std::move(object);
    }
  }
  made.args = py::tuple(args);
  made.is_list = node.output_lists().size() != 1 || node.output_lists()[0] != graph::Node::kSingle;
  for (const auto* output : node.outputs()) {
    made.outputs.push_back(output == nullptr ? std::nullopt : std::optional(FxValue{output->id()}));
  }
  for (const auto& [key, value] : node.origin.metadata) {
    made.made_for = key == "fx_node" ? value : made.made_for;
  }
  return made;
}

} // namespace weft::python
