#include "python/bindings/bindings.h"

#include "weft/core/layout_algebra.h"
#include "weft/nn/cross.h"
#include "weft/styles/module_layout.h"

#include <torch/csrc/autograd/python_variable.h>

namespace weft::python {

namespace {

using namespace nn;

ModuleKind kind_from(const std::string& name) {
  return name == "linear" ? ModuleKind::Linear : name == "embedding" ? ModuleKind::Embedding : ModuleKind::Other;
}

/// (path, kind, [(name, shape, identity)])
using GivenParameter = std::tuple<std::string, std::vector<int64_t>, uintptr_t>;
using GivenModule = std::tuple<std::string, std::string, std::vector<GivenParameter>>;

ModuleInfo info_from(const GivenModule& given) {
  const auto& [path, kind, parameters] = given;
  ModuleInfo info{.path = path, .kind = kind_from(kind), .parameters = {}};
  for (const auto& [name, shape, identity] : parameters) {
    info.parameters.push_back({name, shape, reinterpret_cast<const void*>(identity)});
  }
  return info;
}

/// What happens to the inputs and outputs of one module.
struct ModuleBoundary {
  Crosser crosser;
  std::vector<Crossing> inputs;
  std::map<std::string, Crossing> keyword_inputs;
  bool local_inputs;
  std::vector<Crossing> outputs;
  bool local_outputs;

  bool has_inputs() const {
    return !inputs.empty() || !keyword_inputs.empty();
  }
};

template <class Cross>
py::object crossed(py::handle value, const Cross& cross) {
  if (!THPVariable_Check(value.ptr())) {
    return py::reinterpret_borrow<py::object>(value);
  }
  at::Tensor result;
  const auto& tensor = THPVariable_Unpack(value.ptr());
  {
    const py::gil_scoped_release let_go;
    result = cross(tensor);
  }
  return result.is_same(tensor) ? py::reinterpret_borrow<py::object>(value) : py::cast(result);
}

py::tuple entered(const ModuleBoundary& boundary, const py::tuple& inputs) {
  py::tuple result(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    result[i] = i >= boundary.inputs.size()
        ? py::reinterpret_borrow<py::object>(inputs[i])
        : crossed(inputs[i], [&](const at::Tensor& tensor) {
            return boundary.crosser.enter(tensor, boundary.inputs[i], boundary.local_inputs);
          });
  }
  return result;
}

py::dict entered_by_keyword(const ModuleBoundary& boundary, const py::dict& inputs) {
  py::dict result;
  for (const auto& [name, value] : inputs) {
    const auto found = boundary.keyword_inputs.find(name.cast<std::string>());
    result[name] = found == boundary.keyword_inputs.end()
        ? py::reinterpret_borrow<py::object>(value)
        : crossed(value, [&](const at::Tensor& tensor) {
            return boundary.crosser.enter(tensor, found->second, boundary.local_inputs);
          });
  }
  return result;
}

py::object left(const ModuleBoundary& boundary, py::handle output, size_t position) {
  return position >= boundary.outputs.size()
      ? py::reinterpret_borrow<py::object>(output)
      : crossed(output, [&](const at::Tensor& tensor) {
          return boundary.crosser.leave(tensor, boundary.outputs[position], boundary.local_outputs);
        });
}

/// Of one output, or of a tuple or list of several.
py::object all_left(const ModuleBoundary& boundary, py::handle outputs) {
  if (!py::isinstance<py::tuple>(outputs) && !py::isinstance<py::list>(outputs)) {
    return left(boundary, outputs, 0);
  }
  py::list result;
  for (const auto output : outputs) {
    result.append(left(boundary, output, result.size()));
  }
  return py::isinstance<py::tuple>(outputs) ? py::object(py::tuple(result)) : py::object(result);
}

py::list lay_out_modules(
    const ParallelPlan& plan,
    const std::vector<GivenModule>& given,
    const DeviceMesh& mesh,
    const std::optional<std::string>& mesh_dim_name) {
  const auto mesh_dim = plan_mesh_dim(mesh, mesh_dim_name);
  std::vector<ModuleInfo> modules;
  for (const auto& module : given) {
    modules.push_back(info_from(module));
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
    if (layout.entry != nullptr) {
      const auto& style = layout.entry->style;
      boundary = py::cast(ModuleBoundary{
          Crosser(entry_text(*layout.entry, modules[i].path), mesh, mesh_dim), layout.inputs, style.keyword_inputs,
          style.local_inputs, layout.outputs, style.local_outputs});
    }
    result.append(py::make_tuple(placements, boundary));
  }
  return result;
}

} // namespace

void bind_parallel(py::module_& module) {
  py::class_<ParallelPlan>(module, "ParallelPlan", "Which modules of a model are parallel how: patterns and styles.")
      .def_static("parse", &ParallelPlan::parse, py::arg("text"), py::arg("name") = "plan", "Of JSON text.")
      .def_static("load", &ParallelPlan::load, py::arg("path"), "Of a file.")
      .def("__str__", &ParallelPlan::to_string);
  py::class_<ModuleBoundary>(module, "ModuleBoundary")
      .def_property_readonly("has_inputs", &ModuleBoundary::has_inputs)
      .def_property_readonly("has_outputs", [](const ModuleBoundary& self) { return !self.outputs.empty(); })
      .def_property_readonly(
          "has_keyword_inputs", [](const ModuleBoundary& self) { return !self.keyword_inputs.empty(); })
      .def("enter", &entered, py::arg("inputs"))
      .def("enter_by_keyword", &entered_by_keyword, py::arg("inputs"))
      .def("leave", &all_left, py::arg("outputs"));
  module.def(
      "path_matches", &matches, py::arg("pattern"), py::arg("path"),
      "Whether a pattern of a plan matches the path of a module.");
  module.def(
      "lay_out", &lay_out_modules, py::arg("plan"), py::arg("modules"), py::arg("mesh"),
      py::arg("mesh_dim") = py::none(),
      "For every (path, kind, parameters) of a model the placements of its parameters and its boundary.");
}

} // namespace weft::python
