#include "weft/graph/propose/replicated_parameters.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/parallelize/module_patterns.h"
#include "weft/graph/parallelize/program_modules.h"

#include <c10/util/accumulate.h>

#include <set>

namespace weft::graph {

namespace {

std::string reason_of(const Value& parameter) {
  for (const auto& use : parameter.uses()) {
    if (use.node->op() != nullptr) {
      return "left replicated: " + target_name(*use.node) + " uses it, for which there is no style";
    }
  }
  return "left replicated: nothing uses it";
}

} // namespace

void add_replicated_parameters(ProposedPlan& proposed, const Program& program, int64_t ranks) {
  const ProgramModules modules(program);
  const auto layouts =
      nn::lay_out(proposed.plan(), modules.modules(), analysis_mesh("tp=" + std::to_string(ranks)), /*mesh_dim=*/0);
  const auto is_named = [&](const std::string& module) {
    const auto matches = [&](const auto& entry) { return nn::matches(entry.pattern, module); };
    const auto shards = [&](const auto& entry) { return entry.style.kind != nn::StyleKind::Output && matches(entry); };
    return std::any_of(proposed.entries.begin(), proposed.entries.end(), shards) ||
        std::any_of(proposed.left_out.begin(), proposed.left_out.end(), matches);
  };
  std::set<const void*> counted;                         // tied parameters count once
  std::vector<std::pair<std::string, std::string>> rest; // the paths of parameters, with reasons
  std::vector<std::string> paths;
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::Parameter) {
      continue;
    }
    const auto [module, number] = modules.parameters().at(input.target);
    const auto& parameter = modules.modules()[module].parameters[number];
    paths.push_back(input.target);
    if (!counted.insert(parameter.identity).second) {
      continue;
    }
    const auto elements = c10::multiply_integers(parameter.shape);
    proposed.parameters += elements;
    if (layouts[module].parameters[number].value_or(Replicate()).is_shard()) {
      continue;
    }
    proposed.replicated += elements;
    if (parameter.shape.size() > 1 && !is_named(modules.modules()[module].path) && !is_named(input.target)) {
      rest.emplace_back(input.target, reason_of(*input.value));
    }
  }
  std::set<std::string> patterns;
  for (const auto& [path, reason] : rest) {
    const auto pattern = widened(path, paths, [&rest = rest, &reason = reason](const std::string& other) {
      return std::find(rest.begin(), rest.end(), std::pair(other, reason)) != rest.end();
    });
    if (patterns.insert(pattern).second) {
      proposed.left_out.push_back({pattern, reason});
    }
  }
}

} // namespace weft::graph
