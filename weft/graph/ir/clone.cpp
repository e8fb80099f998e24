#include "weft/graph/ir/clone.h"

namespace weft::graph {

Program clone(const Program& program) {
  Program result;
  std::unordered_map<const Value*, Value*> values;
  for (const auto* input : program.graph->inputs()) {
    auto* copy = result.graph->add_input(input->name(), input->type);
    copy->layout = input->layout;
    values[input] = copy;
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    std::vector<Value*> operands;
    for (size_t i = 0; i < node->operand_count(); ++i) {
      operands.push_back(values.at(node->operand(i)));
    }
    if (node->is_return()) {
      result.graph->set_return(operands);
      continue;
    }
    OutputTypes outputs;
    outputs.lists = node->output_lists();
    for (const auto* output : node->outputs()) {
      outputs.types.push_back(output == nullptr ? std::nullopt : std::optional<Type>(output->type));
      outputs.names.push_back(output == nullptr ? "" : output->name());
    }
    auto* copy = result.graph->insert(nullptr, node->target(), node->arguments(), operands, std::move(outputs));
    copy->origin = node->origin;
    copy->sharding = node->sharding;
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      if (node->output(i) != nullptr) {
        copy->output(i)->layout = node->output(i)->layout;
        values[node->output(i)] = copy->output(i);
      }
    }
  }
  result.inputs = program.inputs;
  for (auto& input : result.inputs) {
    input.value = input.value == nullptr ? nullptr : values.at(input.value);
  }
  result.outputs = program.outputs;
  result.symbols = program.symbols;
  result.tensors = program.tensors;
  result.mesh = program.mesh;
  result.calling_convention = program.calling_convention;
  return result;
}

} // namespace weft::graph
