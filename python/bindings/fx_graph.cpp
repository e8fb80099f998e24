#include "python/bindings/fx_program.h"
#include "weft/graph/ir/print.h"
#include "weft/tensor/impl/explain.h"

#include <pybind11/stl.h>

namespace weft::python {

namespace {

/// What `with weft.explain()` shows of a decision.
void tell(const graph::OverlapDecision& decision) {
  auto explanation = std::make_shared<Explanation>();
  explanation->op = decision.kind;
  explanation->inputs = {"%" + decision.node + " over " + decision.group};
  explanation->strategy = decision.outcome();
  explanation->why = decision.reason;
  tell_scopes(explanation, /*communicates=*/false);
}

graph::OverlapDecisions micro_pipeline(
    FxProgram& program,
    const std::string& overlap,
    const std::optional<std::string>& link,
    const std::optional<std::string>& compute,
    const std::map<std::string, std::string>& groups) {
  graph::OverlapOptions options{.mode = parse_overlap_mode(overlap)};
  for (const auto& [name, mode] : groups) {
    options.modes_of_groups.emplace(name, parse_overlap_mode(mode));
  }
  if (link) {
    options.link = parse_link(*link);
  }
  if (compute) {
    options.compute = parse_compute(*compute);
  }
  auto decisions = program.micro_pipeline(options);
  std::for_each(decisions.begin(), decisions.end(), tell);
  return decisions;
}

} // namespace

void bind_fx_program(py::module_& module) {
  py::class_<FxValue>(module, "FxValue").def_readonly("id", &FxValue::id);
  py::class_<FxNode>(module, "FxNode")
      .def_readonly("id", &FxNode::id)
      .def_readonly("replaced", &FxNode::replaced)
      .def_readonly("op", &FxNode::op)
      .def_readonly("overload", &FxNode::overload)
      .def_readonly("args", &FxNode::args)
      .def_readonly("kwargs", &FxNode::kwargs)
      .def_readonly("made_for", &FxNode::made_for)
      .def_readonly("outputs", &FxNode::outputs)
      .def_readonly("is_list", &FxNode::is_list);
  py::class_<FxProgram>(module, "FxProgram")
      .def(py::init<>())
      .def("add_symbol", &FxProgram::add_symbol, py::arg("name"), py::arg("hint"))
      .def("add_input", &FxProgram::add_input, py::arg("name"), py::arg("type"))
      .def(
          "call",
          [](FxProgram& self, const std::string& op, const std::string& overload, const py::tuple& args,
             const py::dict& kwargs, const py::list& returns, const std::vector<std::string>& names,
             const std::string& node, const std::string& module_path) {
            graph::Origin origin;
            origin.module = module_path;
            origin.metadata = {{"fx_node", node}};
            auto called = self.call(op, overload, args, kwargs, returns, names, origin);
            return py::make_tuple(called.id, called.results);
          },
          py::arg("op"), py::arg("overload"), py::arg("args"), py::arg("kwargs"), py::arg("returns"), py::arg("names"),
          py::arg("node"), py::arg("module"))
      .def("finish", &FxProgram::finish, py::arg("values"))
      .def(
          "micro_pipeline", &micro_pipeline, py::arg("overlap"), py::arg("link"), py::arg("compute"), py::arg("groups"),
          py::call_guard<py::gil_scoped_release>())
      .def("nodes", &FxProgram::nodes)
      .def("__str__", [](const FxProgram& self) { return graph::to_string(self.program()); });
  py::class_<graph::OverlapDecision>(
      module, "OverlapDecision", "Whether a collective was fused with the matmuls next to it, and why.")
      .def_readonly("kind", &graph::OverlapDecision::kind)
      .def_readonly("node", &graph::OverlapDecision::node)
      .def_readonly("group", &graph::OverlapDecision::group)
      .def_readonly("module", &graph::OverlapDecision::module)
      .def_readonly("fused", &graph::OverlapDecision::fused)
      .def_readonly("matmuls", &graph::OverlapDecision::matmuls)
      .def_readonly("chunks", &graph::OverlapDecision::chunks)
      .def_readonly("reason", &graph::OverlapDecision::reason)
      .def("__str__", &graph::OverlapDecision::to_string)
      .def("__repr__", &graph::OverlapDecision::to_string);
}

} // namespace weft::python
