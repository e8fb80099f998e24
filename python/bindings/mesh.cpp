#include "python/bindings/bindings.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/impl/carried_value.h"

#include <c10/core/Device.h>

namespace weft::python {

namespace {

/// Meshes of `with mesh:`, innermost last. They hold for backward too, which may compute a part of forward again on a
/// thread of autograd.
struct EnteredMeshes {
  std::vector<DeviceMesh> meshes;

  static const std::string kCarriedName;
  static std::atomic<int64_t> carried_count;
};

const std::string EnteredMeshes::kCarriedName = "weft::EnteredMeshes";
constinit std::atomic<int64_t> EnteredMeshes::carried_count = 0;

std::vector<DeviceMesh> entered_meshes() {
  const auto* entered = CarriedValue<EnteredMeshes>::get();
  return entered == nullptr ? std::vector<DeviceMesh>() : entered->meshes;
}

void enter(const DeviceMesh& mesh) {
  auto meshes = entered_meshes();
  meshes.push_back(mesh);
  CarriedValue<EnteredMeshes>::set({std::move(meshes)});
}

void leave() {
  auto meshes = entered_meshes();
  TORCH_CHECK_VALUE(!meshes.empty(), "[DeviceMesh] __exit__ needs an __enter__ before it.");
  meshes.pop_back();
  CarriedValue<EnteredMeshes>::set({std::move(meshes)});
}

int64_t mesh_dim_from(const DeviceMesh& mesh, const std::variant<int64_t, std::string>& dim) {
  if (const auto* name = std::get_if<std::string>(&dim)) {
    return mesh.dim(*name);
  }
  const auto given = std::get<int64_t>(dim);
  const auto index = given < 0 ? given + mesh.ndim() : given;
  TORCH_CHECK_VALUE(
      index >= 0 && index < mesh.ndim(), "[DeviceMesh] a mesh dim of ", mesh, " is required, but got ", given,
      ". Use 0 to ", mesh.ndim() - 1, " or a name.");
  return index;
}

using MeshDim = std::optional<std::variant<int64_t, std::string>>;

int64_t only_or_named(const DeviceMesh& mesh, const char* method, const MeshDim& dim) {
  TORCH_CHECK_VALUE(
      dim || mesh.ndim() == 1, "[DeviceMesh.", method,
      "] mesh_dim is required for a mesh of several dims, but got none for ", mesh, ".");
  return dim ? mesh_dim_from(mesh, *dim) : 0;
}

py::tuple names_of(const DeviceMesh& mesh) {
  return py::tuple(py::cast(mesh.names()));
}

py::object rank_array(const DeviceMesh& mesh) {
  auto ranks = at::empty(mesh.shape(), at::kInt);
  std::copy(mesh.ranks().begin(), mesh.ranks().end(), ranks.mutable_data_ptr<int>());
  return py::cast(ranks);
}

/// A dict that lives as long as the handle, which Python keeps what it knows of a mesh in.
py::dict notes_of(const DeviceMesh& mesh) {
  // Groups are kept for one mesh dim or more.
  const c10::IntArrayRef no_dims;
  auto kept = mesh.kept_for(no_dims);
  if (kept == nullptr) {
    kept = std::shared_ptr<void>(py::dict().release().ptr(), [](void* dict) {
      // Meshes of specs live until the process ends, when there is no interpreter.
      if (Py_IsInitialized() != 0) {
        const py::gil_scoped_acquire gil;
        Py_DECREF(static_cast<PyObject*>(dict));
      }
    });
    mesh.keep_for(no_dims, kept);
  }
  return py::reinterpret_borrow<py::dict>(static_cast<PyObject*>(kept.get()));
}

} // namespace

DeviceMesh mesh_from(const char* where, py::handle mesh) {
  if (py::isinstance<DeviceMesh>(mesh)) {
    return mesh.cast<const DeviceMesh&>();
  }
  if (mesh.is_none()) {
    const auto meshes = entered_meshes();
    if (!meshes.empty()) {
      return meshes.back();
    }
    const auto of_torch = py::module_::import("weft._groups").attr("entered_torch_mesh")();
    TORCH_CHECK_VALUE(
        !of_torch.is_none(), "[", where,
        "] a device mesh is required, but got none. Give one, or call inside `with mesh:`.");
    return mesh_from(where, of_torch);
  }
  return py::module_::import("weft._groups").attr("converted_mesh")(where, mesh).cast<DeviceMesh>();
}

MeshDims mesh_dims_from(const char* where, const DeviceMesh& mesh, py::handle mesh_dims) {
  TORCH_CHECK_VALUE(
      !mesh_dims.is_none() || mesh.ndim() == 1, "[", where,
      "] mesh_dim is required for a mesh of several dims, but got none for ", mesh, ".");
  if (mesh_dims.is_none()) {
    return {0};
  }
  MeshDims dims;
  if (py::isinstance<py::sequence>(mesh_dims) && !py::isinstance<py::str>(mesh_dims)) {
    for (const auto each : mesh_dims) {
      dims.push_back(mesh_dim_from(mesh, each.cast<std::variant<int64_t, std::string>>()));
    }
    return dims;
  }
  return {mesh_dim_from(mesh, mesh_dims.cast<std::variant<int64_t, std::string>>())};
}

Layout layout_from(const char* where, py::handle placements, const DeviceMesh& mesh) {
  if (auto layout = optional_layout_from(where, placements)) {
    return *std::move(layout);
  }
  return replicated(mesh);
}

std::optional<Layout> optional_layout_from(const char* where, py::handle placements) {
  if (placements.is_none()) {
    return std::nullopt;
  }
  if (py::isinstance<Layout>(placements)) {
    return placements.cast<Layout>();
  }
  TORCH_CHECK_TYPE(
      py::isinstance<py::sequence>(placements) && !py::isinstance<py::str>(placements), "[", where,
      "] placements must be a sequence, one per mesh dim, but got ", type_name(placements), ". Write [Shard(0)].");
  Placements result;
  for (const auto placement : placements) {
    result.push_back(placement_from(where, placement));
  }
  return Layout(result);
}

void bind_meshes(py::module_& module) {
  module.def(
      "current_mesh", [](const char* where, py::handle mesh) { return mesh_from(where, mesh); }, py::arg("where"),
      py::arg("mesh") = py::none());
  module.def(
      "has_current_mesh",
      [] {
        return !entered_meshes().empty() || !py::module_::import("weft._groups").attr("entered_torch_mesh")().is_none();
      },
      "Whether current_mesh needs to be given none: inside of `with mesh:`.");
  module.def("mesh_notes", &notes_of, py::arg("mesh"), "A dict that lives as long as the mesh handle.");
  py::class_<DeviceMesh>(
      module, "DeviceMesh",
      "An N-D array of ranks with named dims, as one rank sees it.\n\n"
      "    mesh = weft.init_device_mesh('cpu', (2, 4), mesh_dim_names=('dp', 'tp'))\n"
      "    mesh['tp']                       # the mesh over one dim, through this rank\n\n"
      "Inside `with mesh:` it is the mesh of every function that is given none.")
      .def(
          py::init([](const std::string& device_type, py::handle mesh, py::handle mesh_dim_names,
                      py::handle backend_override) {
            const auto make = py::module_::import("weft._groups").attr("make_mesh");
            return make(device_type, mesh, mesh_dim_names, backend_override).cast<DeviceMesh>();
          }),
          py::arg("device_type"), py::arg("mesh"), py::kw_only(), py::arg("mesh_dim_names") = py::none(),
          py::arg("backend_override") = py::none(), "Of an array of ranks. Every rank of the world must make it.")
      .def_property_readonly(
          "device_type",
          [](const DeviceMesh& self) { return c10::DeviceTypeName(self.device_type(), /*lower_case=*/true); })
      .def_property_readonly("ndim", &DeviceMesh::ndim)
      .def_property_readonly("shape", [](const DeviceMesh& self) { return py::tuple(py::cast(self.shape().vec())); })
      .def_property_readonly("mesh", &rank_array, "The ranks, as an integer tensor of the mesh's shape.")
      .def_property_readonly("mesh_dim_names", &names_of, "The names of the dims; d0, d1, ... where none were given.")
      .def(
          "size",
          [](const DeviceMesh& self, const MeshDim& mesh_dim) {
            return mesh_dim ? self.size(mesh_dim_from(self, *mesh_dim)) : self.size();
          },
          py::arg("mesh_dim") = py::none(), "The number of ranks, of the mesh or along one dim.")
      .def(
          "get_rank", [](const DeviceMesh& self) { return self.world()->rank(); }, "This rank's number in the world.")
      .def(
          "get_local_rank",
          [](const DeviceMesh& self, const MeshDim& mesh_dim) {
            return self.rank(only_or_named(self, "get_local_rank", mesh_dim));
          },
          py::arg("mesh_dim") = py::none(), "This rank's index along a dim.")
      .def(
          "get_coordinate",
          [](const DeviceMesh& self) -> py::object {
            return self.is_member() ? py::cast<py::object>(py::tuple(py::cast(self.coordinate().vec()))) : py::none();
          },
          "This rank's index along every dim; None on a rank that is not in the mesh.")
      .def(
          "get_group",
          [](const DeviceMesh& self, const MeshDim& mesh_dim) {
            const auto dim = only_or_named(self, "get_group", mesh_dim);
            return py::module_::import("weft._groups").attr("group_of")(self, dim);
          },
          py::arg("mesh_dim") = py::none(), "The process group of torch.distributed along a dim.")
      .def(
          "get_all_groups",
          [](const DeviceMesh& self) {
            const auto group_of = py::module_::import("weft._groups").attr("group_of");
            py::list groups;
            for (int64_t m = 0; m < self.ndim(); ++m) {
              groups.append(group_of(self, m));
            }
            return groups;
          },
          "The process groups of torch.distributed along all dims.")
      .def(
          "_submesh", [](const DeviceMesh& self, const std::vector<std::string>& names) { return self.submesh(names); },
          py::arg("mesh_dim_names"))
      .def(
          "_with_ranks",
          [](const DeviceMesh& self, const std::vector<int64_t>& shape, const std::vector<int64_t>& ranks,
             std::vector<std::string> names) {
            return DeviceMesh(self.world(), self.device_type(), shape, ranks, std::move(names));
          },
          py::arg("shape"), py::arg("ranks"), py::arg("mesh_dim_names"), "Another mesh of the same world.")
      .def(
          "to_torch",
          [](const DeviceMesh& self) { return py::module_::import("weft._groups").attr("torch_mesh_of")(self); },
          "The mesh as torch.distributed's DeviceMesh.")
      .def_static(
          "from_torch",
          [](py::handle mesh) {
            return py::module_::import("weft._groups").attr("converted_mesh")("DeviceMesh.from_torch", mesh);
          },
          py::arg("mesh"), "The mesh that stands on the process groups of torch.distributed's DeviceMesh.")
      .def_static(
          "from_group",
          [](py::args args, py::kwargs kwargs) {
            return py::module_::import("weft._groups").attr("mesh_from_group")(*args, **kwargs);
          },
          "As torch.distributed's DeviceMesh.from_group.")
      .def_static(
          "parse", [](const std::string& text) { return DeviceMesh::parse(text); }, py::arg("text"),
          "A mesh for planning, of its text: mesh(dp=2,tp=4).")
      .def(
          "__enter__",
          [](const DeviceMesh& self) {
            enter(self);
            return self;
          })
      .def("__exit__", [](const DeviceMesh&, py::args) { leave(); })
      .def(
          "__eq__",
          [](const DeviceMesh& self, py::handle other) {
            return equal_to_another<DeviceMesh>(other, [&](const DeviceMesh& another) { return self == another; });
          })
      .def("__hash__", &DeviceMesh::hash)
      .def("__deepcopy__", [](const DeviceMesh& self, py::handle) { return self; })
      .def("__copy__", [](const DeviceMesh& self) { return self; })
      .def("__repr__", &DeviceMesh::to_string);
}

} // namespace weft::python
