#include "weft/graph/propose/weighted_layers.h"

#include "weft/graph/parallelize/weight_use.h"

namespace weft::graph {

std::unordered_map<const Node*, WeightedLayer> find_weighted_layers(const Program& program, ProgramModules& modules) {
  std::unordered_map<const Value*, const Input*> parameters;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::Parameter) {
      parameters[input.value] = &input;
    }
  }
  std::unordered_map<const Node*, WeightedLayer> layers;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    const auto use = weight_use(*node, [&](const Value* value) { return parameters.count(value) != 0; });
    if (!use || use->is_left) {
      continue;
    }
    const auto& target = parameters.at(use->weight)->target;
    const auto rows = use->weight->tensor().sizes[use->output_dim()].number();
    if (use->is_stack()) {
      const auto& owner = modules.modules()[modules.parameters().at(target).module].path;
      const bool is_transposed = use->kind == nn::ModuleKind::TransposedLinear;
      layers[node] = {node, target, target, use->input, rows, false, WeightedLayer::Stack{owner, is_transposed}};
      continue;
    }
    const auto* module = modules.module_of_weight(*node);
    if (module != nullptr && module->kind == use->kind) {
      const bool is_embedding = use->kind == nn::ModuleKind::Embedding;
      layers[node] = {node, module->path, target, use->input, rows, is_embedding};
    }
  }
  return layers;
}

} // namespace weft::graph
