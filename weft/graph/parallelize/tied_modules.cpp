#include "weft/graph/parallelize/tied_modules.h"

#include "weft/graph/parallelize/program_modules.h"

#include <algorithm>
#include <set>

namespace weft::graph {

namespace {

const nn::ParameterInfo* weight_of(const nn::ModuleInfo& module) {
  const auto found = std::find_if(module.parameters.begin(), module.parameters.end(), [](const auto& parameter) {
    return parameter.name == "weight";
  });
  return found == module.parameters.end() ? nullptr : &*found;
}

const nn::ParallelPlan::Entry* entry_of(const nn::ParallelPlan& plan, const nn::ModuleInfo& module) {
  const auto found = std::find_if(plan.entries().begin(), plan.entries().end(), [&](const auto& entry) {
    return nn::matches(entry.pattern, module.path);
  });
  return found == plan.entries().end() ? nullptr : &*found;
}

/// Whether the style shards consecutive rows or columns of a layer's weight, which a tied layer follows.
bool is_followed(const nn::Style& style) {
  const bool is_layer = style.kind == nn::StyleKind::Colwise || style.kind == nn::StyleKind::Rowwise;
  return is_layer && style.parts == 1 && !style.heads;
}

} // namespace

std::vector<std::string> tied_module_notes(const Program& program, const nn::ParallelPlan& plan) {
  const ProgramModules modules(program);
  std::set<std::string> seen;
  std::vector<std::string> notes;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    const auto* module = modules.module_of_weight(*node);
    if (module == nullptr || entry_of(plan, *module) != nullptr || !seen.insert(module->path).second) {
      continue;
    }
    const auto* weight = weight_of(*module);
    for (const auto& other : modules.modules()) {
      const auto* tied = weight_of(other);
      const auto* entry = entry_of(plan, other);
      if (entry == nullptr || tied == nullptr || weight == nullptr || tied->identity != weight->identity ||
          !is_followed(entry->style)) {
        continue;
      }
      const bool is_alike = (other.kind == nn::ModuleKind::Linear) == (module->kind == nn::ModuleKind::Linear);
      const bool is_colwise = (entry->style.kind == nn::StyleKind::Colwise) == is_alike;
      notes.push_back(c10::str(
          "plan entry \"", entry->pattern, "\" shards the weight of \"", other.path, "\", which \"", module->path,
          "\" has too: \"", module->path, "\" is ", is_colwise ? "colwise" : "rowwise"));
      break;
    }
  }
  return notes;
}

} // namespace weft::graph
