#pragma once

#include "weft/core/device_mesh.h"
#include "weft/core/layout.h"

#include <torch/csrc/utils/pybind.h>

namespace weft::python {

namespace py = pybind11;

/// What each file adds to the module weft._C. Whatever may wait for other ranks lets go of the interpreter's lock first.
void bind_errors(py::module_& module);
void bind_interpreter_lock(py::module_& module);
void bind_placements(py::module_& module);
void bind_meshes(py::module_& module);
void bind_groups(py::module_& module);
void bind_specs(py::module_& module);
void bind_tensors(py::module_& module);
void bind_factories(py::module_& module);
void bind_gradients(py::module_& module);
void bind_ranks(py::module_& module);
void bind_rules(py::module_& module);
void bind_scopes(py::module_& module);
void bind_initialization(py::module_& module);
void bind_fused_matmul(py::module_& module);
void bind_rates(py::module_& module);
void bind_comm_log(py::module_& module);
void bind_parallel(py::module_& module);
void bind_fully_sharded(py::module_& module);
void bind_sharded_program(py::module_& module);
void bind_traced_program(py::module_& module);
void bind_graph(py::module_& module);
void bind_fx_program(py::module_& module);
void bind_checkpoint(py::module_& module);
void bind_tracing(py::module_& module);
void bind_guards(py::module_& module);

/// A Shard, Replicate, StridedShard or Partial object.
py::object placement_object(const Placement& placement);
py::tuple placement_objects(c10::ArrayRef<Placement> placements);
/// Of Weft, or of torch.distributed.tensor.
Placement placement_from(const char* where, py::handle placement);

/// A mesh of Weft or of torch.distributed; None is the one of the innermost `with mesh:`.
DeviceMesh mesh_from(const char* where, py::handle mesh);

/// One mesh dim, by name or number, or several; None is the only one.
MeshDims mesh_dims_from(const char* where, const DeviceMesh& mesh, py::handle mesh_dims);

/// One placement per mesh dim; None is replicated on all.
Layout layout_from(const char* where, py::handle placements, const DeviceMesh& mesh);
std::optional<Layout> optional_layout_from(const char* where, py::handle placements);

/// "f32", "cpu": how the type of an argument is named in an error.
std::string type_name(py::handle object);

/// Of __eq__: anything but another T is left to that object.
template <class T, class Equal>
py::object equal_to_another(py::handle other, const Equal& equal) {
  if (!py::isinstance<T>(other)) {
    return py::reinterpret_borrow<py::object>(Py_NotImplemented);
  }
  return py::bool_(equal(other.cast<const T&>()));
}

} // namespace weft::python
