#include "python/bindings/bindings.h"

#include "weft/comm/world/c10d_world.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"

#include <c10/core/Device.h>

namespace weft::python {

namespace {

/// The C++ object behind one of torch's Python objects, whatever pointer torch's binding holds it by.
template <class T>
c10::intrusive_ptr<T> shared(py::handle object) {
  return c10::intrusive_ptr<T>::reclaim_copy(object.cast<T*>());
}

c10::DeviceType device_type_from(const std::string& name) {
  const c10::Device device(name);
  TORCH_CHECK_VALUE(
      !device.has_index(), "[DeviceMesh] a type of device is required, but got '", name, "'. Write '",
      c10::DeviceTypeName(device.type(), /*lower_case=*/true), "'.");
  return device.type();
}

} // namespace

void bind_groups(py::module_& module) {
  py::class_<Communicator, c10::intrusive_ptr<Communicator>>(module, "World", "The ranks that can talk to each other.")
      .def_property_readonly("rank", &Communicator::rank)
      .def_property_readonly("size", &Communicator::size)
      .def(
          "adopt",
          [](Communicator& /*self*/, const DeviceMesh& mesh, int64_t mesh_dim, py::handle backend,
             std::vector<int64_t> ranks) {
            adopt_group(mesh, mesh_dim, {shared<c10d::Backend>(backend), std::move(ranks)});
          },
          py::arg("mesh"), py::arg("mesh_dim"), py::arg("backend"), py::arg("ranks"))
      .def_property_readonly("group_count", &Communicator::group_count)
      .def(
          "mesh",
          [](const c10::intrusive_ptr<Communicator>& self, const std::string& device_type,
             const std::vector<int64_t>& shape, const std::vector<int64_t>& ranks, std::vector<std::string> names) {
            return DeviceMesh(self, device_type_from(device_type), shape, ranks, std::move(names));
          },
          py::arg("device_type"), py::arg("shape"), py::arg("ranks"), py::arg("names"));
  module.def("in_world_scope", &in_world_scope, "Whether this thread is a rank of its own.");
  module.def("current_world", &current_world, py::call_guard<py::gil_scoped_release>());
  module.def(
      "torch_world",
      [](py::handle store, int64_t rank, int64_t size) {
        return join_c10d_world(shared<c10d::Store>(store), rank, size, default_timeout());
      },
      py::arg("store"), py::arg("rank"), py::arg("size"));
  module.def("fake_world", &make_fake_world, py::arg("size"), py::arg("rank") = 0);
}

} // namespace weft::python
