#include "weft/graph/pt2/write_graph.h"

#include "weft/graph/ir/node_error.h"
#include "weft/graph/pt2/write_arguments.h"

namespace weft::graph {

using nlohmann::json;

namespace {

/// Converts "aten::add.Tensor" to torch.ops.aten.add.Tensor, and "aten::relu" to torch.ops.aten.relu.default.
std::string target_text(const Node& node) {
  if (node.op() == nullptr) {
    return target_name(node);
  }
  const auto& name = node.op()->operator_name();
  const auto colons = name.name.find("::");
  const auto overload = name.overload_name.empty() ? "default" : name.overload_name;
  return "torch.ops." + name.name.substr(0, colons) + "." + name.name.substr(colons + 2) + "." + overload;
}

class GraphWriter {
 public:
  GraphWriter(const WrittenNames& names, TypeWriter& types) : names_(names), types_(types) {}

  json run(const Program& program) {
    json inputs = json::array();
    for (const auto& input : program.inputs) {
      inputs.push_back(input.value == nullptr ? write_constant(*input.constant) : declare(input.value));
    }
    json nodes = json::array();
    for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
      if (!node->is_return()) {
        nodes.push_back(for_node(*node, [&] { return write(*node); }));
      }
    }
    json outputs = json::array();
    const auto* results = program.graph->return_node();
    for (const auto& output : program.outputs) {
      outputs.push_back(
          output.constant ? write_constant(*output.constant) : write_value(results->operand(output.operand), names_));
    }
    return {
        {"inputs", std::move(inputs)},
        {"outputs", std::move(outputs)},
        {"nodes", std::move(nodes)},
        {"tensor_values", std::move(tensors_)},
        {"sym_int_values", std::move(integers_)},
        {"sym_float_values", std::move(reals_)},
        {"sym_bool_values", std::move(truths_)},
        {"custom_obj_values", json::object()},
        {"is_single_tensor_return", false}};
  }

 private:
  /// Writes a value as an argument, and adds its type to the graph's types.
  json declare(const Value* value) {
    const auto& name = names_.of(value);
    if (value->is_tensor()) {
      tensors_[name] = types_.tensor(value->tensor());
    } else {
      const auto kind = std::get<NumberType>(value->type).kind;
      auto& table = kind == NumberKind::Int ? integers_ : kind == NumberKind::Float ? reals_ : truths_;
      table[name] = types_.number_of(value);
    }
    return write_value(value, names_);
  }

  json write(const Node& node) {
    TORCH_CHECK_VALUE(
        node.step() == nullptr, "[write_pt2] a program of a rank is required, but got one with the redistribution ",
        target_name(node), ". Write what localize gives.");
    json metadata = json::object();
    for (const auto& [key, value] : node.origin.metadata) {
      metadata[key] = value;
    }
    return {{"target", target_text(node)},     {"inputs", write_arguments(node, names_)}, {"outputs", outputs(node)},
            {"metadata", std::move(metadata)}, {"is_hop_single_tensor_return", nullptr},  {"name", names_.of(&node)}};
  }

  json outputs(const Node& node) {
    json result = json::array();
    size_t next = 0;
    const auto one = [&] {
      const auto* output = node.output(next++);
      return output == nullptr ? json{{"as_none", true}} : declare(output);
    };
    for (const auto count : node.output_lists()) {
      if (count == Node::kSingle) {
        result.push_back(one());
        continue;
      }
      json tensors = json::array();
      for (int64_t i = 0; i < count; ++i) {
        const auto tensor = one();
        if (tensor.contains("as_tensor")) {
          tensors.push_back(tensor["as_tensor"]);
        }
      }
      result.push_back({{"as_tensors", std::move(tensors)}});
    }
    return result;
  }

  const WrittenNames& names_;
  TypeWriter& types_;
  json tensors_ = json::object();
  json integers_ = json::object();
  json reals_ = json::object();
  json truths_ = json::object();
};

json input_spec(const Input& input, size_t index, const WrittenNames& names) {
  if (input.kind == InputKind::User) {
    if (input.value != nullptr) {
      return {{"user_input", {{"arg", write_value(input.value, names)}}}};
    }
    const auto name = input.target.empty() ? "constant_" + std::to_string(index) : input.target;
    return {{"constant_input", {{"name", name}, {"value", write_constant(*input.constant)}}}};
  }
  const json argument = {{"name", names.of(input.value)}};
  switch (input.kind) {
    case InputKind::Parameter:
      return {{"parameter", {{"arg", argument}, {"parameter_name", input.target}}}};
    case InputKind::Buffer:
      return {{"buffer", {{"arg", argument}, {"buffer_name", input.target}, {"persistent", input.is_persistent}}}};
    default:
      return {{"tensor_constant", {{"arg", argument}, {"tensor_constant_name", input.target}}}};
  }
}

/// The name in the file of the user input of this name.
std::string input_name(const Program& program, const std::string& name, const WrittenNames& names) {
  for (const auto* input : program.graph->inputs()) {
    if (input->name() == name) {
      return names.of(input);
    }
  }
  TORCH_CHECK_VALUE(
      false, "[write_pt2] an output updates the input ", name, ", but the program has none of this name.");
}

json output_spec(const Program& program, const Output& output, const WrittenNames& names) {
  const auto argument = output.constant ? write_constant(*output.constant)
                                        : write_value(program.graph->return_node()->operand(output.operand), names);
  if (output.kind == OutputKind::User) {
    return {{"user_output", {{"arg", argument}}}};
  }
  TORCH_CHECK_VALUE(
      argument.contains("as_tensor"), "[write_pt2] the output that updates ", output.target, " must be a tensor.");
  const auto& tensor = argument["as_tensor"];
  switch (output.kind) {
    case OutputKind::BufferMutation:
      return {{"buffer_mutation", {{"arg", tensor}, {"buffer_name", output.target}}}};
    case OutputKind::ParameterMutation:
      return {{"parameter_mutation", {{"arg", tensor}, {"parameter_name", output.target}}}};
    default:
      return {
          {"user_input_mutation", {{"arg", tensor}, {"user_input_name", input_name(program, output.target, names)}}}};
  }
}

} // namespace

json write_graph(const Program& program, const WrittenNames& names, TypeWriter& types) {
  return GraphWriter(names, types).run(program);
}

json write_signature(const Program& program, const WrittenNames& names) {
  json inputs = json::array();
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    inputs.push_back(input_spec(program.inputs[i], i, names));
  }
  json outputs = json::array();
  for (const auto& output : program.outputs) {
    outputs.push_back(output_spec(program, output, names));
  }
  return {{"input_specs", std::move(inputs)}, {"output_specs", std::move(outputs)}};
}

} // namespace weft::graph
