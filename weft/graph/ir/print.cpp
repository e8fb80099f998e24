#include "weft/graph/ir/print.h"

#include "weft/graph/ir/constant_text.h"
#include "weft/graph/ir/sharding_text.h"
#include "weft/graph/ir/type_text.h"

#include <algorithm>

namespace weft::graph {

namespace {

bool is_plain(std::string_view text, bool with_dots) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [with_dots](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (with_dots && c == '.');
  });
}

std::string name_text(const std::string& name) {
  return "%" + (is_plain(name, false) ? name : quoted_text(name));
}

std::string definition_text(const Value* value) {
  if (value == nullptr) {
    return "_";
  }
  const auto text = name_text(value->name()) + ": " + to_string(value->type);
  return value->layout ? text + " " + value->layout->to_string() : text;
}

std::string outputs_text(const Node& node) {
  const auto& outputs = node.outputs();
  std::string text;
  size_t at = 0;
  for (const auto count : node.output_lists()) {
    text += text.empty() ? "" : ", ";
    if (count == Node::kSingle) {
      text += definition_text(outputs[at++]);
      continue;
    }
    text += "[";
    for (int64_t i = 0; i < count; ++i) {
      text += (i == 0 ? "" : ", ") + definition_text(outputs[at++]);
    }
    text += "]";
  }
  return text;
}

std::string argument_text(const Node& node, const Argument& argument, const c10::Type& type) {
  switch (argument.kind()) {
    case Argument::Kind::Absent:
      return "_";
    case Argument::Kind::Constant:
      return constant_text(argument.constant(), type);
    case Argument::Kind::Operand:
      return name_text(node.operand(argument.operand())->name());
    case Argument::Kind::List:
      break;
  }
  const auto element = element_type(type);
  std::string text = "[";
  for (const auto& each : argument.elements()) {
    text += (text.size() == 1 ? "" : ", ") + argument_text(node, each, *element);
  }
  return text + "]";
}

std::string arguments_text(const Node& node) {
  const std::vector<c10::Argument> none;
  const auto& schema = node.op() == nullptr ? none : node.op()->schema().arguments();
  const auto& arguments = node.arguments();
  std::string text;
  bool by_name = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_known = i < schema.size();
    if (is_known && arguments[i].is_absent()) {
      by_name = true;
      continue;
    }
    by_name = by_name || (is_known && schema[i].kwarg_only());
    text += (text.empty() ? "" : ", ") + (by_name && is_known ? schema[i].name() + "=" : "") +
        argument_text(node, arguments[i], is_known ? *schema[i].real_type() : *c10::AnyType::get());
  }
  return text;
}

std::string node_text(const Node& node, const DeviceMesh* mesh) {
  auto text = outputs_text(node);
  text += (text.empty() ? "" : " = ") + target_name(node) + "(" + arguments_text(node) +
      (node.step() == nullptr ? "" : ", " + step_text(*node.step(), mesh)) + ")";
  if (const auto& module = node.origin.module.str(); !module.empty()) {
    text += " in " + (is_plain(module, true) ? module : quoted_text(module));
  }
  return node.sharding == nullptr || node.op() == nullptr ? text
                                                          : text + sharding_text(*node.sharding, node.op()->schema());
}

std::string symbol_text(const std::string& name, const Symbol& symbol) {
  auto text = "symbol " + name;
  if (symbol.hint) {
    text += " = " + std::to_string(*symbol.hint);
  }
  if (symbol.min || symbol.max) {
    text += " in [" + (symbol.min ? std::to_string(*symbol.min) : "-inf") + ", " +
        (symbol.max ? std::to_string(*symbol.max) : "inf") + "]";
  }
  return text;
}

std::string input_text(const Input& input) {
  constexpr std::array<const char*, 4> kKinds = {"parameter", "buffer", "constant", "user"};
  auto text = "input " +
      (input.constant ? constant_text(*input.constant, *c10::AnyType::get()) : definition_text(input.value)) + " = " +
      kKinds[static_cast<size_t>(input.kind)];
  if (!input.target.empty()) {
    text += " " + quoted_text(input.target);
  }
  return input.is_persistent ? text : text + " not_persistent";
}

std::string output_text(const Program& program, const Output& output) {
  constexpr std::array<const char*, 4> kKinds = {"user", "buffer_mutation", "parameter_mutation", "input_mutation"};
  auto text = "output " +
      (output.constant ? constant_text(*output.constant, *c10::AnyType::get())
                       : name_text(program.graph->return_node()->operand(output.operand)->name())) +
      " = " + kKinds[static_cast<size_t>(output.kind)];
  return output.target.empty() ? text : text + " " + quoted_text(output.target);
}

} // namespace

std::string to_string(const Node& node) {
  return node_text(node, nullptr);
}

std::string to_string(const Program& program) {
  const auto* mesh = program.mesh ? &*program.mesh : nullptr;
  auto text = "program" + (mesh == nullptr ? "" : " @ " + mesh->to_string()) + "\n";
  for (const auto& [name, symbol] : program.symbols) {
    text += symbol_text(name, symbol) + "\n";
  }
  for (const auto& input : program.inputs) {
    text += input_text(input) + "\n";
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    if (!node->is_return()) {
      text += "  " + node_text(*node, mesh) + "\n";
    }
  }
  for (const auto& output : program.outputs) {
    text += output_text(program, output) + "\n";
  }
  return text;
}

} // namespace weft::graph
