#include "weft/graph/pt2/read_signature.h"

#include "weft/graph/pt2/read_graph.h"

namespace weft::graph {

namespace {

/// Reads an input that is a tensor of the program.
Input read_own(const JsonField& spec, InputKind kind, const char* target_key, const JsonField& argument) {
  Input input;
  input.kind = kind;
  input.target = spec[target_key].text();
  if (kind == InputKind::Buffer) {
    input.is_persistent = spec["persistent"].truth();
  }
  argument.check(
      argument.tagged().tag == "as_tensor", "a tensor is required, since the signature has it for ", input.target);
  return input;
}

Input read_input(const JsonField& field, const JsonField& argument) {
  const auto [kind, spec] = field.tagged();
  if (kind == "parameter") {
    return read_own(spec, InputKind::Parameter, "parameter_name", argument);
  }
  if (kind == "buffer") {
    return read_own(spec, InputKind::Buffer, "buffer_name", argument);
  }
  if (kind == "tensor_constant") {
    return read_own(spec, InputKind::Constant, "tensor_constant_name", argument);
  }
  Input input;
  if (kind == "constant_input") {
    input.target = spec["name"].text();
    input.constant = read_constant(spec["value"]);
    spec.check(input.constant.has_value(), "a constant is required as \"value\"");
  } else if (kind == "user_input") {
    input.constant = read_constant(spec["arg"]);
  } else {
    field.fail_not_implemented("an input of the kind " + std::string(kind.substr(0, 80)) + " is not supported");
  }
  return input;
}

Output read_output(const JsonField& field) {
  const auto [kind, spec] = field.tagged();
  const struct {
    const char* name;
    OutputKind kind;
    const char* target;
  } mutations[] = {
      {"buffer_mutation", OutputKind::BufferMutation, "buffer_name"},
      {"parameter_mutation", OutputKind::ParameterMutation, "parameter_name"},
      {"user_input_mutation", OutputKind::InputMutation, "user_input_name"},
  };
  Output output;
  for (const auto& mutation : mutations) {
    if (kind == mutation.name) {
      output.kind = mutation.kind;
      output.target = spec[mutation.target].text();
      return output;
    }
  }
  if (kind != "user_output") {
    field.fail_not_implemented("an output of the kind " + std::string(kind.substr(0, 80)) + " is not supported");
  }
  return output;
}

/// Whether the program has the input that an output updates.
bool has_target(const Program& program, const Output& output) {
  for (const auto& input : program.inputs) {
    switch (output.kind) {
      case OutputKind::User:
        return true;
      case OutputKind::BufferMutation:
        if (input.kind == InputKind::Buffer && input.target == output.target) {
          return true;
        }
        break;
      case OutputKind::ParameterMutation:
        if (input.kind == InputKind::Parameter && input.target == output.target) {
          return true;
        }
        break;
      case OutputKind::InputMutation:
        if (input.kind == InputKind::User && input.value != nullptr && input.value->name() == output.target) {
          return true;
        }
        break;
    }
  }
  return output.kind == OutputKind::User;
}

} // namespace

void read_inputs(const JsonField& graph_module, Program& program, NamedValues& values) {
  const auto graph = graph_module["graph"];
  const auto arguments = graph["inputs"];
  const auto specs = graph_module["signature"]["input_specs"];
  specs.check(
      specs.size() == arguments.size(), "one entry per input of the graph is required, ", arguments.size(),
      ", but got ", specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    auto input = read_input(specs[i], arguments[i]);
    if (!input.constant) {
      auto [name, type] = read_named_type(graph, arguments[i], program);
      input.value = program.graph->add_input(name.text(), std::move(type));
      values.define(name, input.value);
    }
    program.inputs.push_back(std::move(input));
  }
}

void read_outputs(const JsonField& graph_module, Program& program, const NamedValues& values) {
  const auto arguments = graph_module["graph"]["outputs"];
  const auto specs = graph_module["signature"]["output_specs"];
  specs.check(
      specs.size() == arguments.size(), "one entry per output of the graph is required, ", arguments.size(),
      ", but got ", specs.size());
  std::vector<Value*> results;
  for (size_t i = 0; i < specs.size(); ++i) {
    auto output = read_output(specs[i]);
    specs[i].check(has_target(program, output), "there is no input \"", output.target, "\" to update");
    output.constant = read_constant(arguments[i]);
    if (!output.constant) {
      const auto [tag, value] = arguments[i].tagged();
      output.operand = results.size();
      results.push_back(values.find(tag == "as_tensor" ? value["name"] : value["as_name"]));
    }
    program.outputs.push_back(std::move(output));
  }
  program.graph->set_return(results);
}

} // namespace weft::graph
