#include "python/bindings/bindings.h"
#include "weft/overlap/measure/mesh_rates.h"

#include <pybind11/stl.h>

namespace weft::python {

namespace {

/// The numbers of the mesh dims that are named, or all.
MeshDims dims_of(const MeshRates& rates, const std::optional<std::string>& mesh_dim) {
  MeshDims dims;
  for (size_t m = 0; m < rates.mesh_dims.size(); ++m) {
    if (!mesh_dim || rates.mesh_dims[m] == *mesh_dim) {
      dims.push_back(static_cast<int64_t>(m));
    }
  }
  TORCH_CHECK_VALUE(
      !dims.empty(), "[MeshRates.link] one of the mesh dims ", c10::Join(", ", rates.mesh_dims),
      " is required, but got '", mesh_dim.value_or(""), "'.");
  return dims;
}

} // namespace

void bind_rates(py::module_& module) {
  py::class_<MeshRates>(
      module, "MeshRates",
      "What the ranks of a mesh take as given when they decide whether matmuls overlap with collectives: the link of "
      "each\n"
      "mesh dim and the compute of a device. It prints as it parses; its texts are those of WEFT_LINK and "
      "WEFT_COMPUTE.")
      .def_static("parse", &MeshRates::parse, py::arg("text"))
      .def(
          "link",
          [](const MeshRates& self, const std::optional<std::string>& mesh_dim) {
            return to_string(self.link(dims_of(self, mesh_dim)));
          },
          py::arg("mesh_dim") = py::none(),
          "The latency and rate along a mesh dim, '50us,125MB/s'; None: the slowest's.")
      .def_property_readonly(
          "compute", [](const MeshRates& self) { return to_string(self.compute); },
          "The rates of matmuls and memory and the time of a call, '100Gflop/s,27GB/s,1us'; perhaps a message's.")
      .def("__str__", &MeshRates::to_string)
      .def("__repr__", &MeshRates::to_string)
      .def("__hash__", [](const MeshRates& self) { return std::hash<std::string>()(self.to_string()); })
      .def("__eq__", [](const MeshRates& self, const MeshRates& other) { return self == other; }, py::is_operator());
  module.def(
      "measure_rates",
      [](py::handle mesh, std::optional<at::ScalarType> dtype) {
        const auto on = mesh_from("measure_rates", mesh);
        const py::gil_scoped_release release;
        return measure_rates(on, dtype.value_or(c10::get_default_dtype_as_scalartype()));
      },
      py::arg("mesh") = py::none(), py::kw_only(), py::arg("dtype") = py::none(),
      "Measures the mesh's links and the device's matmuls of `dtype` (None: the default dtype), so that matmuls on\n"
      "distributed tensors know whether to overlap with their collectives. What WEFT_LINK and WEFT_COMPUTE give is "
      "not\n"
      "measured.\n\n"
      "    rates = weft.measure_rates(mesh, dtype=torch.bfloat16)\n"
      "    print(rates)          # rates(tp=12us,3.1GB/s; compute=95Gflop/s,21GB/s,1.4us,9us,4GB/s)\n\n"
      "Collective: every rank of the mesh must call it. All get the same rates, and keep them: a further call gives "
      "them\n"
      "without communicating. Without this call the first matmul that is large enough to overlap measures.");
}

} // namespace weft::python
