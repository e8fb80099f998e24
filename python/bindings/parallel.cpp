#include "python/bindings/bindings.h"

#include "python/bindings/module_boundary.h"
#include "weft/core/layout_algebra.h"
#include "weft/styles/module_layout.h"
#include "weft/styles/plain_shards.h"

#include <algorithm>

namespace weft::python {

namespace {

using namespace nn;

ModuleKind kind_from(const std::string& name) {
  return name == "linear"           ? ModuleKind::Linear
      : name == "transposed_linear" ? ModuleKind::TransposedLinear
      : name == "embedding"         ? ModuleKind::Embedding
                                    : ModuleKind::Other;
}

/// (path, kind, [(name, shape, identity)])
using GivenParameter = std::tuple<std::string, std::vector<int64_t>, uintptr_t>;
using GivenModule = std::tuple<std::string, std::string, std::vector<GivenParameter>>;

ModuleInfo info_from(const GivenModule& given, const std::unordered_set<uintptr_t>& settled) {
  const auto& [path, kind, parameters] = given;
  ModuleInfo info{.path = path, .kind = kind_from(kind), .parameters = {}};
  for (const auto& [name, shape, identity] : parameters) {
    info.parameters.push_back({name, shape, reinterpret_cast<const void*>(identity), settled.count(identity) != 0});
  }
  return info;
}

/// Of every parameter whether a style for parameters names it, or its module.
std::vector<bool> named_parameters(const ParallelPlan& plan, const ModuleInfo& module) {
  std::vector<bool> result;
  for (const auto& parameter : module.parameters) {
    const auto path = module.path.empty() ? parameter.name : module.path + "." + parameter.name;
    result.push_back(std::any_of(plan.entries().begin(), plan.entries().end(), [&](const auto& entry) {
      return is_about_parameters(entry.style) && (matches(entry.pattern, module.path) || matches(entry.pattern, path));
    }));
  }
  return result;
}

py::list lay_out_modules(
    const ParallelPlan& plan,
    const std::vector<GivenModule>& given,
    const DeviceMesh& mesh,
    const std::optional<std::string>& mesh_dim_name,
    const std::unordered_set<uintptr_t>& settled) {
  const auto mesh_dim = plan_mesh_dim(mesh, mesh_dim_name);
  std::vector<ModuleInfo> modules;
  for (const auto& module : given) {
    modules.push_back(info_from(module, settled));
  }
  const auto all_replicated = replicated(mesh);
  py::list result;
  const auto layouts = lay_out(plan, modules, mesh, mesh_dim);
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& layout = layouts[i];
    py::list placements;
    for (const auto& placement : layout.parameters) {
      placements.append(
          placement ? py::object(placement_objects(all_replicated.with(mesh_dim, *placement).placements()))
                    : py::none());
    }
    py::object boundary = py::none();
    if (layout.entry != nullptr || !layout.inputs.empty()) {
      const auto style = layout.entry != nullptr ? layout.entry->style : Style();
      const auto where = layout.entry != nullptr ? entry_text(*layout.entry, modules[i].path)
                                                 : "[parallelize_module] module \"" + modules[i].path + "\": ";
      const auto hooks = hooks_of(
          {.crosser = Crosser(where, mesh, mesh_dim),
           .communicates = mesh.size() > 1,
           .inputs = layout.inputs,
           .keyword_inputs = style.keyword_inputs,
           .local_inputs = style.local_inputs,
           .outputs = layout.outputs,
           .local_outputs = style.local_outputs});
      boundary = py::make_tuple(hooks.input, hooks.keyword_input, hooks.output);
    }
    result.append(py::make_tuple(
        placements, boundary, has_plain_shards(layout), layout.entry != nullptr, named_parameters(plan, modules[i]),
        layout.replicates_buffers));
  }
  return result;
}

} // namespace

void bind_parallel(py::module_& module) {
  py::class_<ParallelPlan>(module, "ParallelPlan", "Which modules of a model are parallel how: patterns and styles.")
      .def_static("parse", &ParallelPlan::parse, py::arg("text"), py::arg("name") = "plan", "Of JSON text.")
      .def_static("load", &ParallelPlan::load, py::arg("path"), "Of a file.")
      .def("__str__", &ParallelPlan::to_string)
      .def_property_readonly("has_styles", [](const ParallelPlan& self) { return !self.entries().empty(); })
      .def_property_readonly("has_units", [](const ParallelPlan& self) { return !self.units().empty(); })
      .def(
          "units_of",
          [](const ParallelPlan& self, const std::vector<std::string>& modules) {
            py::list result;
            for (const auto& [number, unit] : match_units(self, modules)) {
              result.append(py::make_tuple(number, unit->mesh_dim, unit->replicate_dim, unit->reshard_after_forward));
            }
            return result;
          },
          py::arg("modules"),
          "The modules that are fully sharded, the innermost first: their number, the mesh dims of shards and of "
          "replicas, and "
          "whether they reshard after forward.");
  module.def(
      "path_matches", &matches, py::arg("pattern"), py::arg("path"),
      "Whether a pattern of a plan matches the path of a module.");
  module.def(
      "lay_out", &lay_out_modules, py::arg("plan"), py::arg("modules"), py::arg("mesh"),
      py::arg("mesh_dim") = py::none(), py::arg("settled") = std::unordered_set<uintptr_t>(),
      "For every (path, kind, parameters) of a model the placements of its parameters, the hooks of its boundary (of "
      "its inputs, of its inputs with keywords, of its outputs), whether it gives out plain shards, whether it is "
      "named, of each parameter whether a style for parameters names it, and whether its buffers are replicated. "
      "Parameters in `settled`, by identity, stay as they are unless the plan names them.");
}

} // namespace weft::python
