#include "weft/styles/module_layout.h"

#include <c10/util/Exception.h>

#include <unordered_map>

namespace weft::nn {

namespace {

using Entry = ParallelPlan::Entry;

bool is_sharded(const Style& style) {
  return style.kind == StyleKind::Colwise || style.kind == StyleKind::Rowwise;
}

/// The tensor dim of a weight that a style shards.
int64_t sharded_dim(const Style& style, ModuleKind kind) {
  return (style.kind == StyleKind::Colwise) == (kind == ModuleKind::Linear) ? 0 : 1;
}

/// Whether there are fewer heads than ranks, so that every rank computes all heads.
bool has_few_heads(const Style& style, int64_t ranks) {
  return style.kind == StyleKind::Colwise && style.heads && *style.heads < ranks && ranks % *style.heads == 0;
}

void check_sharded(const Entry& entry, const ModuleInfo& module, int64_t ranks, std::string_view where) {
  const auto& style = entry.style;
  const auto lead = [&] { return entry_text(entry, module.path, where); };
  TORCH_CHECK_VALUE(
      module.kind != ModuleKind::Other, lead(), "the style ", to_string(style.kind),
      " is for linear and embedding modules. Use \"sequence\", \"input\", \"output\" or \"replicate\", or name the "
      "linear "
      "modules inside.");
  TORCH_CHECK_VALUE(
      !style.heads || *style.heads % ranks == 0 || has_few_heads(style, ranks), lead(),
      "the number of heads must be divisible by the ", ranks, " ranks, but got ", *style.heads,
      ". Use a mesh whose size divides it.");
  for (const auto& parameter : module.parameters) {
    const auto dim = sharded_dim(style, module.kind);
    const auto blocks = style.heads.value_or(1) * style.parts;
    TORCH_CHECK_VALUE(
        parameter.name != "weight" || parameter.shape[dim] % blocks == 0, lead(), "dim ", dim,
        " of the weight must be divisible by ", blocks, ", heads times parts, but is ", parameter.shape[dim], ".");
  }
}

Placement parameter_placement(const Style& style, ModuleKind kind, const std::string& name, int64_t ranks) {
  if (!is_sharded(style) || has_few_heads(style, ranks)) {
    return Replicate();
  }
  const auto dim = name == "weight" ? sharded_dim(style, kind) : 0;
  const bool is_replicated = name == "bias" && style.kind == StyleKind::Rowwise;
  return is_replicated ? Replicate() : StridedShard(dim, style.parts);
}

/// The crossings of a style, with defaults that depend on the kind of the module.
void lay_out_boundary(ModuleLayout& result, const Style& style, ModuleKind kind, int64_t ranks) {
  result.inputs = style.inputs;
  result.outputs = style.outputs;
  if (is_sharded(style)) {
    const bool takes_shards = style.kind == StyleKind::Rowwise && kind == ModuleKind::Linear;
    const auto wanted = takes_shards ? Shard(-1) : Replicate();
    result.inputs[0] = {.from = style.inputs[0].from.value_or(wanted), .to = wanted};
  }
  if (has_few_heads(style, ranks)) {
    result.outputs = {{.to = Replicate()}};
  }
}

/// The placements of tied parameters, by identity, with the module and plan entry that set them.
class Tied {
 public:
  explicit Tied(std::string_view where) : where_(where) {}

  void add(const ModuleInfo& module, const ParameterInfo& parameter, const Entry& entry, Placement placement) {
    const auto [found, is_new] = given_.try_emplace(parameter.identity, Given{placement, &module, &entry});
    const auto& [placed, other, by] = found->second;
    TORCH_CHECK_VALUE(
        placed == placement, entry_text(entry, module.path, where_), "parameter \"", parameter.name,
        "\" is tied to one of module \"", other->path, "\", which entry \"", by->pattern, "\" lays out as ",
        placed.to_string(), ", but got ", placement.to_string(),
        ". Tied parameters must have one placement, as those of a rowwise embedding and a colwise linear have.");
  }
  std::optional<Placement> find(const ParameterInfo& parameter) const {
    const auto found = given_.find(parameter.identity);
    return found == given_.end() ? std::nullopt : std::optional<Placement>(found->second.placement);
  }

 private:
  struct Given {
    Placement placement;
    const ModuleInfo* module;
    const Entry* entry;
  };
  std::string_view where_;
  std::unordered_map<const void*, Given> given_;
};

bool gives_out_plain_tensors(const ParallelPlan& plan) {
  return std::any_of(plan.entries().begin(), plan.entries().end(), [](const Entry& entry) {
    return entry.style.local_outputs || entry.style.local_inputs;
  });
}

} // namespace

std::string entry_text(const Entry& entry, const std::string& path, std::string_view where) {
  return "[" + std::string(where) + "] plan entry \"" + entry.pattern + "\" for module \"" + path + "\": ";
}

int64_t plan_mesh_dim(const DeviceMesh& mesh, const std::optional<std::string>& name, std::string_view where) {
  if (name) {
    return mesh.dim(*name);
  }
  const auto& names = mesh.names();
  const auto found = std::find(names.begin(), names.end(), "tp");
  TORCH_CHECK_VALUE(
      found != names.end() || mesh.ndim() == 1, "[", where,
      "] the mesh dim that the plan is for is required, but got none for ", mesh,
      ". Name it with mesh_dim, or call it tp.");
  return found == names.end() ? 0 : found - names.begin();
}

std::vector<ModuleLayout> lay_out(
    const ParallelPlan& plan,
    c10::ArrayRef<ModuleInfo> modules,
    const DeviceMesh& mesh,
    int64_t mesh_dim,
    std::string_view where) {
  const bool rest_stays_plain = gives_out_plain_tensors(plan);
  TORCH_CHECK_VALUE(
      !rest_stays_plain || mesh.ndim() == 1, "[", where,
      "] on a mesh of several dims modules take and give out distributed tensors, since a plan says "
      "nothing of the other dims, but got local inputs or outputs on ",
      mesh, ". Leave them distributed (use_local_output=False), or give the mesh of one dim.");
  std::vector<std::string> paths;
  for (const auto& module : modules) {
    paths.push_back(module.path);
  }
  const auto entries = match(plan, paths, where);
  const auto ranks = mesh.size(mesh_dim);

  std::vector<ModuleLayout> result(modules.size());
  Tied tied(where);
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto& module = modules[i];
    if (entries[i] == nullptr) {
      continue;
    }
    const auto& style = entries[i]->style;
    if (is_sharded(style)) {
      check_sharded(*entries[i], module, ranks, where);
    }
    result[i].entry = entries[i];
    lay_out_boundary(result[i], style, module.kind, ranks);
    for (const auto& parameter : module.parameters) {
      tied.add(module, parameter, *entries[i], parameter_placement(style, module.kind, parameter.name, ranks));
    }
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    for (const auto& parameter : modules[i].parameters) {
      const auto placed = tied.find(parameter);
      result[i].parameters.push_back(placed || rest_stays_plain ? placed : Replicate());
    }
  }
  return result;
}

} // namespace weft::nn
