#include "weft/graph/deploy/traced_program.h"
#include "python/bindings/bindings.h"
#include "weft/graph/deploy/new_folder.h"

#include <pybind11/stl.h>

namespace weft::python {

namespace {

using RankFile = std::tuple<std::string, uint64_t, uint32_t>;

RankFile write_traced(
    const std::string& traced,
    const std::string& folder,
    int64_t rank,
    const std::map<std::string, std::string>& mesh_dims) {
  const auto file = graph::write_traced(traced, folder, rank, mesh_dims);
  return {file.name, file.bytes, file.digest};
}

void complete(
    graph::NewFolder& folder,
    const DeviceMesh& mesh,
    const std::vector<RankFile>& rank_files,
    const std::vector<SpecPtr>& inputs,
    const std::vector<SpecPtr>& outputs) {
  auto manifest = graph::manifest_of_traced(folder.path() + "/" + std::get<0>(rank_files.at(0)), mesh, inputs, outputs);
  for (const auto& [name, bytes, digest] : rank_files) {
    manifest.rank_files.push_back({name, bytes, digest});
  }
  folder.complete(manifest);
}

} // namespace

void bind_traced_program(py::module_& module) {
  py::class_<graph::NewFolder>(module, "NewFolder")
      .def(py::init<const std::string&>(), py::arg("folder"))
      .def_property_readonly("path", &graph::NewFolder::path)
      .def(
          "complete", &complete, py::arg("mesh"), py::arg("rank_files"), py::arg("inputs"), py::arg("outputs"),
          py::call_guard<py::gil_scoped_release>());
  module.def(
      "write_traced", &write_traced, py::arg("traced"), py::arg("folder"), py::arg("rank"), py::arg("mesh_dims"),
      py::call_guard<py::gil_scoped_release>());
}

} // namespace weft::python
