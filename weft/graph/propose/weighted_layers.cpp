#include "weft/graph/propose/weighted_layers.h"

namespace weft::graph {

namespace {

using Parameters = std::unordered_map<const Value*, const Input*>;

/// Which operand is the weight, and which is the input of the layer.
struct Form {
  size_t weight;
  size_t input;
  bool is_transposed; // whether the weight is transposed before the call
  bool is_embedding = false;
};

std::optional<Form> form_of(const Node& node) {
  const auto name = target_name(node);
  if (name == "aten::linear") {
    return Form{1, 0, false};
  }
  if (name == "aten::addmm") {
    return Form{2, 1, true};
  }
  if (name == "aten::mm" || name == "aten::matmul" || name == "aten::bmm") {
    return Form{1, 0, true};
  }
  if (name == "aten::embedding") {
    return Form{0, 1, false, true};
  }
  return std::nullopt;
}

bool is_transpose(std::string_view name) {
  return name == "aten::t" || name == "aten::permute" || name == "aten::transpose.int";
}

/// Other calls that a weight may go through before the product: decompositions repeat it for every row of a batch.
bool keeps_weight(std::string_view name) {
  return name == "aten::expand" || name == "aten::view" || name == "aten::clone" || name == "aten::unsqueeze";
}

const Input* weight_of(const Node& node, const Form& form, const Parameters& parameters) {
  const auto* value = node.operand(form.weight);
  size_t transposes = 0;
  while (form.is_transposed && value->producer() != nullptr) {
    const auto name = target_name(*value->producer());
    if (!is_transpose(name) && !keeps_weight(name)) {
      return nullptr;
    }
    transposes += is_transpose(name) ? 1 : 0;
    value = value->producer()->operand(0);
  }
  const auto found = parameters.find(value);
  const bool is_found = found != parameters.end() && value->tensor().dim() == 2;
  return is_found && transposes == (form.is_transposed ? 1 : 0) ? found->second : nullptr;
}

} // namespace

std::unordered_map<const Node*, WeightedLayer> find_weighted_layers(const Program& program, ProgramModules& modules) {
  Parameters parameters;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::Parameter) {
      parameters[input.value] = &input;
    }
  }
  std::unordered_map<const Node*, WeightedLayer> layers;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    const auto form = node->op() == nullptr ? std::nullopt : form_of(*node);
    const auto* weight = form ? weight_of(*node, *form, parameters) : nullptr;
    if (weight == nullptr) {
      continue;
    }
    const auto kind = form->is_embedding ? nn::ModuleKind::Embedding : nn::ModuleKind::Linear;
    const auto& around = modules.around(*node);
    const auto& owner = modules.modules()[modules.parameters().at(weight->target).module];
    // If a weight is tied, the module that calls it does not own it.
    const auto* caller = around.empty() ? &owner : &modules.modules()[around.back().module];
    const bool is_own = weight->target == owner.path + ".weight";
    const auto* module = caller->kind == kind ? caller : owner.kind == kind && is_own ? &owner : nullptr;
    if (module != nullptr) {
      layers[node] = {
          node,
          module->path,
          weight->target,
          node->operand(form->input),
          weight->value->tensor().sizes[0].number(),
          form->is_embedding};
    }
  }
  return layers;
}

} // namespace weft::graph
