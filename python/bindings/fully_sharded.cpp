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
class ModuleOfUnit {
 public:
  ModuleOfUnit(std::vector<Slot> slots, py::list refreshed, std::vector<at::Tensor> leaves)
      : slots_(std::move(slots)), refreshed_(std::move(refreshed)), shown_(std::move(leaves)) {}

  void put(c10::ArrayRef<at::Tensor> parameters) {
    for (const auto& slot : slots_) {
      TORCH_CHECK_VALUE(
          !is_replaced(slot), "[fully_shard] parameters that are replaced between steps alone are required, but '",
          std::string(std::get<1>(slot)), "' was while it is gathered. Write to it between steps, with copy_.");
    }
    for (const auto& [table, name, number] : slots_) {
      const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(parameters[number]));
      PyDict_SetItem(table.ptr(), name.ptr(), object.ptr());
    }
    shown_ = parameters.vec();
    for (const auto& refresh : refreshed_) {
      refresh();
    }
  }
  /// The unit takes the parameters that someone has assigned to its module, as load_state_dict(assign=True) does.
  void adopt_replaced(Unit& unit) {
    for (const auto& slot : slots_) {
      const auto number = std::get<2>(slot);
      if (!is_replaced(slot) || !shown_[number].is_same(unit.leaves()[number])) {
        continue; // put() says what is wrong with the latter
      }
      const auto given = parameter_in(slot);
      for (const auto& other : slots_) {
        TORCH_CHECK_VALUE(
            std::get<2>(other) != number || parameter_in(other).is_same(given),
            "[fully_shard] a tied parameter is replaced under all of its names, but '", std::string(std::get<1>(other)),
            "' is another tensor now. Assign the same one to each.");
      }
      unit.replace_leaf(number, given);
      shown_[number] = given;
    }
  }

 private:
  static at::Tensor parameter_in(const Slot& slot) {
    auto* const object = PyDict_GetItem(std::get<0>(slot).ptr(), std::get<1>(slot).ptr());
    TORCH_CHECK_VALUE(
        object != nullptr && THPVariable_Check(object), "[fully_shard] the parameter '", std::string(std::get<1>(slot)),
        "' of a fully sharded module is required, but it was deleted. Delete it before fully_shard.");
    return THPVariable_Unpack(object);
  }
  bool is_replaced(const Slot& slot) const {
    return !parameter_in(slot).is_same(shown_[std::get<2>(slot)]);
  }

  std::vector<Slot> slots_;
  py::list refreshed_; // functions of no arguments, called after parameters were replaced
  std::vector<at::Tensor> shown_;
};

/// A unit whose parameters are in the tables of Python's modules.
class PythonUnit : public Unit {
 public:
  PythonUnit(std::vector<at::Tensor> leaves, UnitOptions options, std::shared_ptr<ModuleOfUnit> module)
      : Unit(
            std::move(leaves),
            std::move(options),
            [module](c10::ArrayRef<at::Tensor> parameters) {
              const py::gil_scoped_acquire lock;
              module->put(parameters);
            }),
        module_(std::move(module)) {}

  void enter_module(std::optional<bool> is_global) {
    module_->adopt_replaced(*this);
    const py::gil_scoped_release no_gil;
    enter(is_global);
  }
  void unshard_module(std::optional<bool> is_global) {
    module_->adopt_replaced(*this);
    const py::gil_scoped_release no_gil;
    unshard(is_global);
  }

 private:
  std::shared_ptr<ModuleOfUnit> module_;
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
  } else if (!PyType_Check(value) && !PyModule_Check(value) && !PyCallable_Check(value)) {
    if (PyObject_HasAttrString(value, "__dict__")) {
      const py::object fields = py::handle(value).attr("__dict__");
      for_each_tensor(fields.ptr(), fn, std::min(depth - 1, 3));
    }
    for (const auto name : py::getattr(py::type::handle_of(value), "__match_args__", py::tuple())) {
      const auto field = py::getattr(value, name, py::none()); // of a dataclass with slots
      for_each_tensor(field.ptr(), fn, std::min(depth - 1, 3));
    }
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

std::shared_ptr<PythonUnit> make_unit(
    const py::iterable& leaves,
    const std::vector<Slot>& slots,
    const py::list& refreshed,
    const std::string& mesh_dim,
    std::optional<std::string> replicate_dim,
    const py::object& gathered_dtype,
    const py::object& reduced_dtype) {
  const auto tensors = tensors_of(leaves);
  const std::shared_ptr<ModuleOfUnit> module(new ModuleOfUnit(slots, refreshed, tensors), [](ModuleOfUnit* made) {
    const py::gil_scoped_acquire lock;
    delete made;
  });
  return std::make_shared<PythonUnit>(
      tensors,
      UnitOptions{
          .mesh_dim = mesh_dim,
          .replicate_dim = std::move(replicate_dim),
          .reshard_after_forward = false,
          .gathered_dtype = dtype_from(gathered_dtype),
          .reduced_dtype = dtype_from(reduced_dtype)},
      module);
}

/// Whether the module computes in the global view, by its inputs: nullopt if none of them is a tensor.
std::optional<bool> view_of(const PythonUnit& unit, const py::args& values) {
  std::optional<bool> is_global;
  for_each_tensor(
      values.ptr(), [&](const at::Tensor& tensor) { is_global = is_global.value_or(false) || unit.is_global(tensor); });
  return is_global;
}

/// Results may be in the arguments, too, as in a list that the module adds to, and in `attributes`, the dicts of the unit's modules:
/// some keep a result, as a loss to be added later.
void leave(PythonUnit& unit, py::handle result, py::handle arguments, const py::list& attributes, bool has_failed) {
  std::vector<at::Tensor> outputs;
  const auto add = [&](const at::Tensor& tensor) {
    if (tensor.requires_grad()) {
      outputs.push_back(tensor);
    }
  };
  for_each_tensor(result.ptr(), add);
  for_each_tensor(arguments.ptr(), add);
  for (const auto fields : attributes) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(fields.ptr(), &position, &key, &value);) {
      for_each_tensor(value, add, /*depth=*/0);
    }
  }
  const py::gil_scoped_release no_gil;
  unit.leave(outputs, has_failed);
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
  py::class_<PythonUnit, std::shared_ptr<PythonUnit>>(module, "Unit", "The parameters of a fully sharded module.")
      .def_property_readonly("leaves", &PythonUnit::leaves)
      .def(
          py::init(&make_unit), py::arg("leaves"), py::arg("slots"), py::arg("refreshed"), py::arg("mesh_dim"),
          py::arg("replicate_dim"), py::arg("gathered_dtype"), py::arg("reduced_dtype"))
      .def_static(
          "join",
          [](const std::vector<std::shared_ptr<PythonUnit>>& units) {
            const auto schedule = std::make_shared<Schedule>();
            for (const auto& unit : units) {
              unit->join(schedule);
            }
          },
          "Units that start each other's gathers.")
      .def(
          "add_inner", [](PythonUnit& self, PythonUnit& inner) { self.add_inner(inner); }, py::arg("unit"))
      .def("view_of", &view_of, "Whether values are in the global view; None without a tensor.")
      .def("enter", &PythonUnit::enter_module, py::arg("is_global"))
      .def("leave", &leave, py::arg("result"), py::arg("arguments"), py::arg("attributes"), py::arg("has_failed"))
      .def("unshard", &PythonUnit::unshard_module, py::arg("is_global"))
      .def("start_gather", &PythonUnit::start_gather, py::call_guard<py::gil_scoped_release>())
      .def("reshard", &PythonUnit::reshard, py::call_guard<py::gil_scoped_release>())
      .def("set_reshard_after_forward", &PythonUnit::set_reshard_after_forward, py::arg("value"))
      .def("set_reshard_after_backward", &PythonUnit::set_reshard_after_backward, py::arg("value"))
      .def("set_requires_gradient_sync", &PythonUnit::set_requires_gradient_sync, py::arg("value"))
      .def(
          "set_forward_prefetch",
          [](PythonUnit& self, const std::vector<std::shared_ptr<PythonUnit>>& units) {
            self.set_forward_prefetch({units.begin(), units.end()});
          },
          py::arg("units"))
      .def(
          "set_backward_prefetch",
          [](PythonUnit& self, const std::vector<std::shared_ptr<PythonUnit>>& units) {
            self.set_backward_prefetch({units.begin(), units.end()});
          },
          py::arg("units"));
}

} // namespace weft::python
