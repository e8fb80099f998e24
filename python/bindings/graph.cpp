#include "python/bindings/bindings.h"
#include "weft/graph/overlap/collective_text.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

namespace weft::python {

void bind_graph(py::module_& module) {
  module.def(
      "rewrite_pt2",
      [](const std::string& in_path, const std::string& out_path) {
        graph::write_pt2(graph::read_pt2(in_path), out_path);
      },
      py::arg("in_path"), py::arg("out_path"), py::call_guard<py::gil_scoped_release>(),
      "Reads an exported program and writes it again, as torch.export.load takes it.");
  module.def(
      "find_collectives",
      [](const std::string& path) { return graph::to_string(graph::find_collectives(graph::read_pt2(path))); },
      py::arg("path"), py::call_guard<py::gil_scoped_release>(),
      "The gathers, scatters and reductions of an exported program of one rank, a line each.");
}

} // namespace weft::python
