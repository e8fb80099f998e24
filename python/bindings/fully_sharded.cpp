#include "python/bindings/bindings.h"

#include "weft/fully_sharded/parameter_slots.h"
#include "weft/fully_sharded/shard_dims.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"

#include <c10/util/FunctionRef.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

namespace weft::python {

namespace {

/// Where a module keeps a parameter: nn.Module._parameters, the name, and the number of the parameter in the unit.
using TableSlot = std::tuple<py::dict, py::str, size_t>;

/// The tables of Python's modules. Autograd's threads may be the last to let go of them.
class ModuleTables : public ParameterSlots {
 public:
  ModuleTables(const std::vector<TableSlot>& slots, py::list refreshed, std::vector<at::Tensor> leaves)
      : ParameterSlots(names_of(slots), std::move(leaves)), refreshed_(std::move(refreshed)) {
    for (const auto& [table, name, number] : slots) {
      places_.emplace_back(table, name);
    }
  }

  void put_and_refresh(c10::ArrayRef<at::Tensor> parameters) {
    put(parameters);
    for (const auto& refresh : refreshed_) {
      refresh();
    }
  }

 private:
  static std::vector<Slot> names_of(const std::vector<TableSlot>& slots) {
    std::vector<Slot> result;
    for (const auto& [table, name, number] : slots) {
      result.push_back({name, number});
    }
    return result;
  }
  at::Tensor get(size_t slot) const override {
    const auto& [table, name] = places_[slot];
    auto* const object = PyDict_GetItem(table.ptr(), name.ptr());
    return object != nullptr && THPVariable_Check(object) ? THPVariable_Unpack(object) : at::Tensor();
  }
  void set(size_t slot, const at::Tensor& parameter) override {
    const auto& [table, name] = places_[slot];
    const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(parameter));
    PyDict_SetItem(table.ptr(), name.ptr(), object.ptr());
  }

  std::vector<std::pair<py::dict, py::str>> places_;
  py::list refreshed_; // functions of no arguments, called after parameters were replaced
};

/// A unit whose parameters are in the tables of Python's modules.
class PythonUnit : public Unit {
 public:
  PythonUnit(std::vector<at::Tensor> leaves, UnitOptions options, std::shared_ptr<ModuleTables> module)
      : Unit(
            std::move(leaves),
            std::move(options),
            [module](c10::ArrayRef<at::Tensor> parameters) {
              const py::gil_scoped_acquire lock;
              module->put_and_refresh(parameters);
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
  std::shared_ptr<ModuleTables> module_;
};

/// Finds every tensor of nested values: arguments or results of a module. What it does not find, in an iterator or beyond
/// kMostObjects, is an error where it is used after the parameters were freed (see PooledBuffer).
class TensorFinder {
 public:
  using Function = c10::function_ref<void(const at::Tensor&)>;

  explicit TensorFinder(Function fn) : fn_(fn) {}

  void visit(PyObject* value, int depth = kMostLevels) {
    if (THPVariable_Check(value)) {
      fn_(THPVariable_Unpack(value));
    } else if (
        depth == 0 || value == Py_None || PyUnicode_Check(value) || PyLong_Check(value) || PyFloat_Check(value)) {
      return;
    } else if (PyTuple_Check(value) || PyList_Check(value)) {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
        visit(PySequence_Fast_GET_ITEM(value, i), depth - 1);
      }
    } else if (PyDict_Check(value)) {
      PyObject *key, *item;
      for (Py_ssize_t position = 0; PyDict_Next(value, &position, &key, &item);) {
        visit(item, depth - 1);
      }
    } else if (
        !PyType_Check(value) && !PyModule_Check(value) && !PyCallable_Check(value) && objects_.size() < kMostObjects &&
        objects_.insert(value).second) {
      visit_fields(value, depth - 1);
    }
  }

 private:
  static constexpr int kMostLevels = 16;
  static constexpr size_t kMostObjects = 1024; // an object may refer to much that is no result

  void visit_fields(PyObject* value, int depth) {
    if (PyObject_HasAttrString(value, "__dict__")) {
      const py::object fields = py::handle(value).attr("__dict__");
      visit(fields.ptr(), depth);
    }
    for (const auto name : py::getattr(py::type::handle_of(value), "__match_args__", py::tuple())) {
      const auto field = py::getattr(value, name, py::none()); // of a dataclass with slots
      visit(field.ptr(), depth);
    }
  }

  Function fn_;
  std::set<PyObject*> objects_; // that were visited
};

void for_each_tensor(PyObject* value, TensorFinder::Function fn) {
  TensorFinder(fn).visit(value);
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
    const std::vector<TableSlot>& slots,
    const py::list& refreshed,
    const std::string& mesh_dim,
    std::optional<std::string> replicate_dim,
    const py::object& gathered_dtype,
    const py::object& reduced_dtype,
    const std::optional<std::string>& offloads_from,
    bool pins_memory) {
  std::optional<Offload> offload;
  if (offloads_from) {
    offload = Offload{.device = c10::Device(*offloads_from).type(), .pins_memory = pins_memory};
  }
  const auto tensors = tensors_of(leaves);
  const std::shared_ptr<ModuleTables> module(new ModuleTables(slots, refreshed, tensors), [](ModuleTables* made) {
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
          .reduced_dtype = dtype_from(reduced_dtype),
          .offload = offload},
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
  // Those without a gradient, too: they may be gathered parameters.
  const auto add = [&](const at::Tensor& tensor) { outputs.push_back(tensor); };
  for_each_tensor(result.ptr(), add);
  for_each_tensor(arguments.ptr(), add);
  for (const auto fields : attributes) {
    PyObject *key, *value;
    for (Py_ssize_t position = 0; PyDict_Next(fields.ptr(), &position, &key, &value);) {
      if (THPVariable_Check(value)) {
        add(THPVariable_Unpack(value));
      }
    }
  }
  const py::gil_scoped_release no_gil;
  unit.leave(outputs, has_failed);
}

void set_reduced_hook(PythonUnit& unit, py::function hook) {
  const std::shared_ptr<py::function> kept(new py::function(std::move(hook)), [](py::function* made) {
    const py::gil_scoped_acquire lock;
    delete made;
  });
  unit.set_reduced_hook([kept](const at::Tensor& reduced) {
    const py::gil_scoped_acquire lock;
    (*kept)(py::reinterpret_steal<py::object>(THPVariable_Wrap(reduced)));
  });
}

} // namespace

void bind_fully_sharded(py::module_& module) {
  module.def(
      "shard_parameters",
      [](const py::iterable& parameters, const DeviceMesh& mesh, const std::string& mesh_dim, bool offloads,
         const std::vector<int64_t>& tensor_dims) {
        const auto given = tensors_of(parameters);
        const py::gil_scoped_release no_gil;
        return shard_parameters(given, mesh, mesh_dim, offloads ? std::optional(c10::kCPU) : std::nullopt, tensor_dims);
      },
      py::arg("parameters"), py::arg("mesh"), py::arg("mesh_dim"), py::arg("offloads"), py::arg("tensor_dims"),
      "The ragged shards of the parameters of one unit, detached.");
  module.def(
      "shard_dims",
      [](const DeviceMesh& mesh, const std::optional<std::string>& shard, const std::optional<std::string>& replicate) {
        const auto dims = shard_dims(mesh, shard, replicate);
        return std::pair(dims.shard, dims.replicate);
      },
      py::arg("mesh"), py::arg("shard"), py::arg("replicate"), "The names of the mesh dims of shards and of replicas.");
  py::class_<PythonUnit, std::shared_ptr<PythonUnit>>(module, "Unit", "The parameters of a fully sharded module.")
      .def_property_readonly("leaves", &PythonUnit::leaves)
      .def(
          py::init(&make_unit), py::arg("leaves"), py::arg("slots"), py::arg("refreshed"), py::arg("mesh_dim"),
          py::arg("replicate_dim"), py::arg("gathered_dtype"), py::arg("reduced_dtype"), py::arg("offloads_from"),
          py::arg("pins_memory"))
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
      .def_property_readonly("depth", &PythonUnit::depth, "The number of forwards that run now.")
      .def_property_readonly(
          "shows_gathered", &PythonUnit::shows_gathered, "Whether the module has gathered parameters now.")
      .def(
          "unwind", [](PythonUnit& self, size_t depth) { self.unwind(depth); }, py::arg("depth"),
          py::call_guard<py::gil_scoped_release>(), "Leaves the forwards beyond the first ones.")
      .def(
          "let_go", [](PythonUnit& self) { self.let_go(); }, py::call_guard<py::gil_scoped_release>())
      .def("start_gather", &PythonUnit::start_gather, py::call_guard<py::gil_scoped_release>())
      .def("reshard", &PythonUnit::reshard, py::call_guard<py::gil_scoped_release>())
      .def("set_reshard_after_forward", &PythonUnit::set_reshard_after_forward, py::arg("value"))
      .def("set_reshard_to", &PythonUnit::set_reshard_to, py::arg("ranks"))
      .def("set_reshard_after_backward", &PythonUnit::set_reshard_after_backward, py::arg("value"))
      .def("set_requires_gradient_sync", &PythonUnit::set_requires_gradient_sync, py::arg("value"))
      .def("set_requires_all_reduce", &PythonUnit::set_requires_all_reduce, py::arg("value"))
      .def("set_gradient_divide_factor", &PythonUnit::set_gradient_divide_factor, py::arg("value"))
      .def("set_reduced_hook", &set_reduced_hook, py::arg("hook"))
      .def("reset", &PythonUnit::reset, py::call_guard<py::gil_scoped_release>())
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
