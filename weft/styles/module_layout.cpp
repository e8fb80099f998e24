#include "weft/styles/module_layout.h"

#include <c10/util/Exception.h>

#include <unordered_map>

namespace weft::nn {

namespace {

using Entry = ParallelPlan::Entry;

bool is_sharded(const Style& style) {
  return style.kind == StyleKind::Colwise || style.kind == StyleKind::Rowwise || style.kind == StyleKind::Shard;
}

/// The tensor dim of a weight that a style shards.
int64_t sharded_dim(const Style& style, ModuleKind kind) {
  return (style.kind == StyleKind::Colwise) == (kind == ModuleKind::Linear) ? 0 : 1;
}

/// Whether there are fewer heads than ranks, so that every rank computes all heads.
bool has_few_heads(const Style& style, int64_t ranks) {
  return style.kind == StyleKind::Colwise && style.heads && *style.heads < ranks && ranks % *style.heads == 0;
}

/// Parts of different sizes are numbers of heads, which no rank has a part of.
template <class Lead>
void check_part_sizes(const Parts& parts, int64_t ranks, const Lead& lead) {
  for (const auto size : parts.sizes()) {
    TORCH_CHECK_VALUE(
        size % ranks == 0, lead(), "the size of every part must be divisible by the ", ranks, " ranks, but got ",
        c10::IntArrayRef(parts.sizes()), ". Use a mesh whose size divides them.");
  }
}

void check_sharded(const Entry& entry, const ModuleInfo& module, int64_t ranks, std::string_view where) {
  const auto& style = entry.style;
  const auto lead = [&] { return entry_text(entry, module.path, where); };
  TORCH_CHECK_VALUE(
      module.kind != ModuleKind::Other && style.kind != StyleKind::Shard, lead(), "the style ", to_string(style.kind),
      style.kind == StyleKind::Shard
          ? " is for parameters. Name those of the module."
          : " is for linear and embedding modules. Use \"sequence\", \"input\", \"output\" or \"replicate\", or name "
            "the linear modules or the parameters inside.");
  TORCH_CHECK_VALUE(
      !style.heads || *style.heads % ranks == 0 || has_few_heads(style, ranks), lead(),
      "the number of heads must be divisible by the ", ranks, " ranks, but got ", *style.heads,
      ". Use a mesh whose size divides it.");
  check_part_sizes(style.parts, ranks, lead);
  for (const auto& parameter : module.parameters) {
    const auto dim = sharded_dim(style, module.kind);
    const auto blocks = style.heads.value_or(1) * style.parts.units();
    TORCH_CHECK_VALUE(
        parameter.name != "weight" || parameter.shape[dim] % blocks == 0, lead(), "dim ", dim,
        " of the weight must be divisible by ", blocks, ", heads times parts, but is ", parameter.shape[dim], ".");
  }
}

Placement module_parameter_placement(const Style& style, ModuleKind kind, const std::string& name, int64_t ranks) {
  if (!is_sharded(style) || has_few_heads(style, ranks)) {
    return Replicate();
  }
  const auto dim = name == "weight" ? sharded_dim(style, kind) : 0;
  const bool is_replicated = name == "bias" && style.kind == StyleKind::Rowwise;
  return is_replicated ? Replicate() : style.parts.shard(dim);
}

/// The placement of a parameter that the plan names by itself: a stack of weights [..., outputs, inputs], or of biases.
Placement named_parameter_placement(
    const Entry& entry,
    const std::string& path,
    const ParameterInfo& parameter,
    int64_t ranks,
    std::string_view where) {
  const auto& style = entry.style;
  const auto lead = [&] {
    return "[" + std::string(where) + "] plan entry \"" + entry.pattern + "\" for parameter \"" + path + "\": ";
  };
  TORCH_CHECK_VALUE(
      (is_sharded(style) && !style.heads) || style.kind == StyleKind::Replicate, lead(),
      "the style of a parameter must be colwise or rowwise without heads, shard or replicate, but got ",
      style.to_string(), ". Name the module for its inputs and outputs.");
  const auto ndim = static_cast<int64_t>(parameter.shape.size());
  const bool is_replicated = style.kind == StyleKind::Replicate || (style.kind == StyleKind::Rowwise && ndim < 2);
  if (is_replicated || ndim == 0) {
    return Replicate();
  }
  const auto given = style.kind == StyleKind::Shard ? style.dim
      : style.kind == StyleKind::Colwise            ? std::max<int64_t>(ndim - 2, 0)
                                                    : ndim - 1;
  const auto placement = style.parts.shard(given).normalized(ndim);
  const auto size = parameter.shape[placement.dim()];
  TORCH_CHECK_VALUE(
      size % style.parts.units() == 0, lead(), "dim ", placement.dim(), " must be divisible by ", style.parts.units(),
      " parts, but is ", size, ".");
  check_part_sizes(style.parts, ranks, lead);
  return placement;
}

/// The crossings of a style, with defaults that depend on the kind of the module.
void lay_out_boundary(ModuleLayout& result, const Style& style, ModuleKind kind, int64_t ranks) {
  result.inputs = style.inputs;
  result.outputs = style.outputs;
  if (is_sharded(style)) {
    const bool takes_shards = style.kind == StyleKind::Rowwise && kind != ModuleKind::Embedding;
    const auto wanted = takes_shards ? style.parts.shard(-1) : Replicate();
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

  void add(
      const ModuleInfo& module,
      const ParameterInfo& parameter,
      const Entry& entry,
      Placement placement,
      bool is_by_module) {
    const auto [found, is_new] =
        given_.try_emplace(parameter.identity, Given{placement, &module, &entry, is_by_module});
    const auto& [placed, other, by, unused] = found->second;
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
  /// Whether a style of a module, rather than of the parameter itself, shards the weight, with consecutive rows or
  /// columns.
  bool is_sharded_by_module(const ParameterInfo& weight) const {
    const auto found = given_.find(weight.identity);
    return found != given_.end() && found->second.is_by_module && found->second.placement.is_plain_shard();
  }

 private:
  struct Given {
    Placement placement;
    const ModuleInfo* module;
    const Entry* entry;
    bool is_by_module; // rather than by its own path
  };
  std::string_view where_;
  std::unordered_map<const void*, Given> given_;
};

/// A layer that the plan does not name, and whose weight is tied to that of a layer that it does: has the boundary of the
/// style that would shard its weight so, because terms without one would be reduced by several of their uses.
void lay_out_tied(ModuleLayout& result, ModuleKind kind, const Placement& weight) {
  const bool is_colwise = sharded_dim(colwise(), kind) == weight.dim();
  lay_out_boundary(result, is_colwise ? colwise() : rowwise(), kind, /*ranks=*/1);
}

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
  std::vector<std::string> parameter_paths;
  for (const auto& module : modules) {
    paths.push_back(module.path);
    for (const auto& parameter : module.parameters) {
      parameter_paths.push_back(module.path.empty() ? parameter.name : module.path + "." + parameter.name);
    }
  }
  const auto entries = match(plan, paths, parameter_paths, where);
  const auto ranks = mesh.size(mesh_dim);

  std::vector<ModuleLayout> result(modules.size());
  Tied tied(where);
  for (size_t i = 0, p = 0; i < modules.size(); ++i) {
    const auto& module = modules[i];
    const auto* entry = entries[i];
    if (entry != nullptr) {
      if (is_sharded(entry->style)) {
        check_sharded(*entry, module, ranks, where);
      }
      result[i].entry = entry;
      lay_out_boundary(result[i], entry->style, module.kind, ranks);
    }
    for (const auto& parameter : module.parameters) {
      const auto& path = parameter_paths[p];
      const auto* named = entries[modules.size() + p++];
      if (named != nullptr) {
        tied.add(module, parameter, *named, named_parameter_placement(*named, path, parameter, ranks, where), false);
      } else if (entry != nullptr) {
        const auto placement = module_parameter_placement(entry->style, module.kind, parameter.name, ranks);
        tied.add(module, parameter, *entry, placement, true);
      }
    }
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    for (const auto& parameter : modules[i].parameters) {
      const auto placed = tied.find(parameter);
      const bool stays = rest_stays_plain || parameter.is_settled;
      result[i].parameters.push_back(placed || stays ? placed : Replicate());
      const bool is_layer = modules[i].kind != ModuleKind::Other && parameter.name == "weight";
      if (result[i].entry == nullptr && is_layer && !rest_stays_plain && tied.is_sharded_by_module(parameter)) {
        lay_out_tied(result[i], modules[i].kind, *placed);
      }
    }
    const auto& placed = result[i].parameters;
    const bool all_placed = !placed.empty() &&
        std::all_of(placed.begin(), placed.end(), [](const auto& placement) { return placement.has_value(); });
    result[i].replicates_buffers = !rest_stays_plain || result[i].entry != nullptr || all_placed;
  }
  return result;
}

} // namespace weft::nn
