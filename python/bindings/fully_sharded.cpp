#include "python/bindings/bindings.h"

#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"

#include <c10/util/FunctionRef.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

namespace weft::python {

namespace {

/// Where a module keeps a parameter: nn.Module._parameters, the name, and the number of the parameter in the unit.
using Slot = std::tuple<py::dict, py::str, size_t>;

/// Python objects of a unit, which autograd's threads may be the last to let go of.
struct ModuleOfUnit {
  std::vector<Slot> slots;
  py::list refreshed; // functions of no arguments, called after parameters were replaced

  void put(c10::ArrayRef<at::Tensor> parameters) const {
    for (const auto& [table, name, number] : slots) {
      const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(parameters[number]));
      PyDict_SetItem(table.ptr(), name.ptr(), object.ptr());
    }
    for (const auto& refresh : refreshed) {
      refresh();
    }
  }
};

/// Calls a function with every tensor of nested values: arguments or results of a module.
void for_each_tensor(PyObject* value, c10::function_ref<void(const at::Tensor&)> fn, int depth = 8) {
  if (THPVariable_Check(value)) {
    fn(THPVariable_Unpack(value));
  } else if (depth == 0 || value == Py_None || PyUnicode_Check(value) || PyLong_Check(value) || PyFloat_Check(value)) {
    return;
  } else if (PyTuple_Check(value) || PyList_Check(value)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
      for_each_tensor(PySequence_Fast_GET_ITEM(value, i), fn, depth - 1);
    }
  } else if (PyDict_Check(value)) {
    PyObject *key, *item;
    for (Py_ssize_t position = 0; PyDict_Next(value, &position, &key, &item);) {
      for_each_tensor(item, fn, depth - 1);
    }
  } else if (
      !PyType_Check(value) && !PyModule_Check(value) && !PyCallable_Check(value) &&
      PyObject_HasAttrString(value, "__dict__")) {
    const py::object fields = py::handle(value).attr("__dict__");
    for_each_tensor(fields.ptr(), fn, std::min(depth - 1, 3));
  }
}

std::vector<at::Tensor> tensors_of(const py::iterable& given) {
  std::vector<at::Tensor> tensors;
  for (const auto each : given) {
    tensors.push_back(THPVariable_Unpack(each.ptr()));
  }
  return tensors;
}

std::optional<at::ScalarType> dtype_from(const py::object& dtype) {
  return dtype.is_none() ? std::nullopt : std::optional(reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type);
}

std::shared_ptr<Unit> make_unit(
    const py::iterable& leaves,
    const std::vector<Slot>& slots,
    const py::list& refreshed,
    const std::string& mesh_dim,
    std::optional<std::string> replicate_dim,
    const py::object& gathered_dtype,
    const py::object& reduced_dtype) {
  const std::shared_ptr<ModuleOfUnit> module(new ModuleOfUnit{slots, refreshed}, [](ModuleOfUnit* made) {
    const py::gil_scoped_acquire lock;
    delete made;
  });
  return std::make_shared<Unit>(
      tensors_of(leaves),
      UnitOptions{
          .mesh_dim = mesh_dim,
          .replicate_dim = std::move(replicate_dim),
          .reshard_after_forward = false,
          .gathered_dtype = dtype_from(gathered_dtype),
          .reduced_dtype = dtype_from(reduced_dtype)},
      [module](c10::ArrayRef<at::Tensor> parameters) {
        const py::gil_scoped_acquire lock;
        module->put(parameters);
      });
}

/// Whether the module computes in the global view, by its inputs: nullopt if none of them is a tensor.
std::optional<bool> view_of(const Unit& unit, const py::args& values) {
  std::optional<bool> is_global;
  for_each_tensor(
      values.ptr(), [&](const at::Tensor& tensor) { is_global = is_global.value_or(false) || unit.is_global(tensor); });
  return is_global;
}

/// `attributes` are the dicts of the unit's modules: some keep a result, as a loss to be added later.
void leave(Unit& unit, py::handle result, const py::list& attributes) {
  std::vector<at::Tensor> outputs;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.requires_grad()) {
      outputs.push_back(tensor);
    }
  };
  for_each_tensor(result.ptr(), add);
  for (const auto fields : attributes) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(fields.ptr(), &position, &key, &value);) {
      for_each_tensor(value, add, /*depth=*/0);
    }
  }
  const py::gil_scoped_release no_gil;
  unit.leave(outputs);
}

} // namespace

void bind_fully_sharded(py::module_& module) {
  module.def(
      "shard_parameters",
      [](const py::iterable& parameters, const DeviceMesh& mesh, const std::string& mesh_dim) {
        const auto given = tensors_of(parameters);
        const py::gil_scoped_release no_gil;
        return shard_parameters(given, mesh, mesh_dim);
      },
      py::arg("parameters"), py::arg("mesh"), py::arg("mesh_dim"),
      "The ragged shards of the parameters of one unit, detached.");
  py::class_<Unit, std::shared_ptr<Unit>>(module, "Unit", "The parameters of a fully sharded module.")
      .def(
          py::init(&make_unit), py::arg("leaves"), py::arg("slots"), py::arg("refreshed"), py::arg("mesh_dim"),
          py::arg("replicate_dim"), py::arg("gathered_dtype"), py::arg("reduced_dtype"))
      .def_static(
          "join",
          [](const std::vector<std::shared_ptr<Unit>>& units) {
            const auto schedule = std::make_shared<Schedule>();
            for (const auto& unit : units) {
              unit->join(schedule);
            }
          },
          "Units that start each other's gathers.")
      .def("add_inner", &Unit::add_inner, py::arg("unit"))
      .def("view_of", &view_of, "Whether values are in the global view; None without a tensor.")
      .def("enter", &Unit::enter, py::arg("is_global"), py::call_guard<py::gil_scoped_release>())
      .def("leave", &leave, py::arg("result"), py::arg("attributes"))
      .def("unshard", &Unit::unshard, py::arg("is_global"), py::call_guard<py::gil_scoped_release>())
      .def("start_gather", &Unit::start_gather, py::call_guard<py::gil_scoped_release>())
      .def("reshard", &Unit::reshard, py::call_guard<py::gil_scoped_release>())
      .def("set_reshard_after_forward", &Unit::set_reshard_after_forward, py::arg("value"))
      .def("set_reshard_after_backward", &Unit::set_reshard_after_backward, py::arg("value"))
      .def("set_requires_gradient_sync", &Unit::set_requires_gradient_sync, py::arg("value"))
      .def(
          "set_forward_prefetch",
          [](Unit& self, const std::vector<std::shared_ptr<Unit>>& units) {
            self.set_forward_prefetch({units.begin(), units.end()});
          },
          py::arg("units"))
      .def(
          "set_backward_prefetch",
          [](Unit& self, const std::vector<std::shared_ptr<Unit>>& units) {
            self.set_backward_prefetch({units.begin(), units.end()});
          },
          py::arg("units"));
}

} // namespace weft::python
