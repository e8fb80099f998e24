#include "weft/nn/parallelize_module.h"

#include "weft/core/layout_algebra.h"
#include "weft/fully_sharded/shard_dims.h"
#include "weft/nn/cross.h"
#include "weft/nn/fully_shard.h"
#include "weft/nn/parallel.h"
#include "weft/nn/placing.h"
#include "weft/styles/module_layout.h"
#include "weft/styles/plain_shards.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace weft::nn {

namespace {

ModuleKind kind_of(const torch::nn::Module& module) {
  return module.as<torch::nn::Linear>() != nullptr   ? ModuleKind::Linear
      : module.as<torch::nn::Embedding>() != nullptr ? ModuleKind::Embedding
                                                     : ModuleKind::Other;
}

ModuleInfo info_of(const std::string& path, const torch::nn::Module& module, const DeviceMesh& mesh) {
  ModuleInfo info{.path = path, .kind = kind_of(module), .parameters = {}};
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    const auto& parameter = item.value();
    const bool is_settled = is_dtensor(parameter) && spec_of(parameter)->mesh() == mesh;
    info.parameters.push_back({item.key(), parameter.sizes().vec(), parameter.unsafeGetTensorImpl(), is_settled});
  }
  return info;
}

/// `cross` is Crosser::enter or Crosser::leave.
BoundaryFn crossing(
    decltype(&Crosser::enter) cross,
    const Crosser& crosser,
    const std::vector<Crossing>& crossings,
    bool as_local) {
  return [=](std::vector<at::Tensor> values) {
    for (size_t i = 0; i < std::min(values.size(), crossings.size()); ++i) {
      values[i] = (crosser.*cross)(values[i], crossings[i], as_local);
    }
    return values;
  };
}

/// Whether the crossings of a style follow from the module's weights without boundary functions.
bool follows_from_weights(const Style& style) {
  const auto plain = [&](Style other) {
    other.heads = style.heads;
    return style == other;
  };
  return plain(colwise({.parts = style.parts})) || plain(rowwise({.parts = style.parts})) || style == replicate();
}

/// Checks before anything is changed.
void check_crossings(torch::nn::Module& module, const Style& style, const std::string& where) {
  TORCH_CHECK_VALUE(
      style.keyword_inputs.empty(), where,
      "C++ modules have no keyword arguments, but the style names some. Name inputs by position.");
  TORCH_CHECK_VALUE(
      dynamic_cast<Boundaries*>(&module) != nullptr || follows_from_weights(style), where,
      "a module whose inputs or outputs are redistributed must be declared Parallel, but ", module.name(),
      " is not. Write weft::nn::Parallel<...> where it is a member.");
}

void add_crossings(torch::nn::Module& module, const ModuleLayout& layout, const Crosser& crosser) {
  auto* boundaries = dynamic_cast<Boundaries*>(&module);
  if (boundaries == nullptr) {
    return;
  }
  const auto& style = layout.entry->style;
  if (!layout.inputs.empty()) {
    boundaries->add_input_fn(crossing(&Crosser::enter, crosser, layout.inputs, style.local_inputs));
  }
  if (!layout.outputs.empty()) {
    boundaries->add_output_fn(crossing(&Crosser::leave, crosser, layout.outputs, style.local_outputs));
  }
}

using Modules = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;

void apply_styles(
    torch::nn::Module& module,
    const Modules& modules,
    const DeviceMesh& mesh,
    const ParallelPlan& plan,
    const ParallelizeOptions& options) {
  const auto mesh_dim = plan_mesh_dim(mesh, options.mesh_dim);
  std::vector<ModuleInfo> infos;
  for (const auto& item : modules) {
    infos.push_back(info_of(item.key(), *item.value(), mesh));
  }
  const auto layouts = lay_out(plan, infos, mesh, mesh_dim);

  for (size_t i = 0; i < layouts.size(); ++i) {
    if (const auto* entry = layouts[i].entry) {
      check_crossings(*modules[i].value(), entry->style, entry_text(*entry, infos[i].path));
    }
  }

  const auto all_replicated = replicated(mesh);
  bool has_shards = false; // by this plan, or by an earlier one for a module inside
  Placing placing(mesh, {.src_data_rank = options.src_data_rank});
  for (size_t i = 0; i < layouts.size(); ++i) {
    auto& owner = *modules[i].value();
    for (size_t p = 0; p < infos[i].parameters.size(); ++p) {
      const auto& name = infos[i].parameters[p].name;
      const auto& placement = layouts[i].parameters[p];
      if (placement) {
        placing.place(
            owner, name, owner.named_parameters(/*recurse=*/false)[name], all_replicated.with(mesh_dim, *placement));
      }
    }
    if (layouts[i].replicates_buffers) {
      placing.replicate_what_is_plain(owner);
    }
    if (auto* boundaries = dynamic_cast<Boundaries*>(&owner)) {
      boundaries->set_has_plain_shards(boundaries->has_plain_shards() || has_plain_shards(layouts[i]));
      has_shards = has_shards || boundaries->has_plain_shards();
    }
    if (layouts[i].entry != nullptr) {
      add_crossings(owner, layouts[i], Crosser(entry_text(*layouts[i].entry, infos[i].path), mesh, mesh_dim));
    }
  }
  set_replicates_plain(module, options.replicate_plain.value_or(!has_shards));
}

} // namespace

void parallelize_module(
    torch::nn::Module& module,
    const DeviceMesh& mesh,
    const ParallelPlan& plan,
    const ParallelizeOptions& options) {
  const auto modules = module.named_modules();
  const auto units = match_units(plan, modules.keys());
  for (const auto& [number, unit] : units) {
    TORCH_CHECK_VALUE(
        dynamic_cast<Boundaries*>(modules[number].value().get()) != nullptr, "[parallelize_module] plan entry \"",
        unit->pattern, "\" for module \"", modules[number].key(),
        "\": a module that is fully sharded must be declared ", "Parallel, but ", modules[number].value()->name(),
        " is not. Write weft::nn::Parallel<...> where it is a member.");
    shard_dims(mesh, unit->mesh_dim, unit->replicate_dim); // raises for a name that is no mesh dim
  }
  if (!plan.entries().empty() || units.empty()) {
    apply_styles(module, modules, mesh, plan, options);
  }
  for (const auto& [number, unit] : units) {
    fully_shard(
        *modules[number].value(), mesh,
        {.mesh_dim = unit->mesh_dim,
         .replicate_dim = unit->replicate_dim,
         .reshard_after_forward = unit->reshard_after_forward});
  }
}

} // namespace weft::nn
