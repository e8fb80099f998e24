#include "weft/graph/propose/unsharded_layers.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/parallelize/program_modules.h"
#include "weft/graph/propose/propose_plan.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <set>

namespace weft::graph {

namespace {

constexpr double kWorthTelling = 0.1; // of the model's parameters
constexpr size_t kMostNames = 6;

} // namespace

std::optional<std::string> unsharded_layers_note(const Program& program, const nn::ParallelPlan& plan, int64_t ranks) {
  if (ranks == 1) {
    return std::nullopt;
  }
  const ProgramModules modules(program);
  const auto mesh = analysis_mesh("tp=" + std::to_string(ranks));
  const auto by_plan = nn::lay_out(plan, modules.modules(), mesh, /*mesh_dim=*/0, "tensor_parallel");
  const auto proposed = propose_plan(program, ranks);
  const auto by_proposed = nn::lay_out(proposed.plan(), modules.modules(), mesh, /*mesh_dim=*/0);
  int64_t all = 0;
  int64_t unsharded = 0;
  bool shards_any = false;
  std::vector<std::string> patterns;
  std::set<const void*> counted; // tied parameters count once
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::Parameter) {
      continue;
    }
    const auto [number, index] = modules.parameters().at(input.target);
    const auto& module = modules.modules()[number];
    const auto& parameter = module.parameters[index];
    if (!counted.insert(parameter.identity).second) {
      continue;
    }
    const auto elements = c10::multiply_integers(parameter.shape);
    all += elements;
    const auto is_sharded = [&](const std::vector<nn::ModuleLayout>& layouts) {
      return layouts[number].parameters[index].value_or(Replicate()).is_shard();
    };
    const auto matches = [&](const auto& entry) {
      return nn::is_about_parameters(entry.style) &&
          (nn::matches(entry.pattern, module.path) || nn::matches(entry.pattern, input.target));
    };
    if (is_sharded(by_plan)) {
      shards_any = true;
    } else if (is_sharded(by_proposed) && std::none_of(plan.entries().begin(), plan.entries().end(), matches)) {
      const auto entry = std::find_if(proposed.entries.begin(), proposed.entries.end(), matches);
      const auto& pattern = entry == proposed.entries.end() ? input.target : entry->pattern;
      unsharded += elements;
      if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end()) {
        patterns.push_back(pattern);
      }
    }
  }
  if (!shards_any || static_cast<double>(unsharded) < kWorthTelling * static_cast<double>(all)) {
    return std::nullopt;
  }
  if (patterns.size() > kMostNames) {
    const auto more = patterns.size() - kMostNames;
    patterns.resize(kMostNames);
    patterns.push_back(c10::str(more, " more"));
  }
  return c10::str(
      "the plan does not name layers with ", (100 * unsharded + all / 2) / all,
      "% of the parameters, which every rank holds and `weft plan` would shard: ", c10::Join(", ", patterns),
      ". Give them a style, or \"replicate\" if that is meant.");
}

} // namespace weft::graph
