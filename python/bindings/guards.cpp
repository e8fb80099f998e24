#include "python/bindings/bindings.h"

#include "weft/core/tensor_spec.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/impl/parallel_forward.h"
#include "weft/tensor/impl/scopes.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace weft::python {

namespace {

// Guards of compiled functions: every call of a compiled function asks them, so they are functions of C, without conversions. What a
// guard knows is in a capsule.

template <class Known>
const Known& known_of(PyObject* capsule) {
  return *static_cast<const Known*>(PyCapsule_GetPointer(capsule, nullptr));
}

/// The function of a guard that knows this. The function refers to its definition.
template <class Known>
py::object guard_of(PyMethodDef& definition, Known known) {
  const py::capsule capsule(new Known(std::move(known)), nullptr, [](PyObject* made) {
    delete static_cast<const Known*>(PyCapsule_GetPointer(made, nullptr));
  });
  return py::reinterpret_steal<py::object>(PyCFunction_New(&definition, capsule.ptr()));
}

/// The settings of this thread that a traced program depends on.
int64_t tracing_state() {
  const auto& scopes = Scopes::of_thread();
  return (scopes.strict ? 1 : 0) | (scopes.replicate_plain ? 2 : 0) | (scopes.debug ? 4 : 0) |
      (scopes.loss_parallel ? 8 : 0) | (ParallelForward::is_active() ? 16 : 0);
}

/// What a traced program depends on in one of its arguments.
struct TracedArgument {
  SpecPtr spec;
  bool is_parameter;
  int64_t state;
};

/// Whether what was traced with one tensor holds for another. Every call of a compiled function asks this of each
/// distributed argument.
PyObject* is_as_traced(PyObject* capsule, PyObject* object) {
  const auto& wanted = known_of<TracedArgument>(capsule);
  bool holds = false;
  if (THPVariable_Check(object)) {
    const auto& tensor = THPVariable_Unpack(object);
    const auto* impl = as_dtensor(tensor);
    holds = impl != nullptr && impl->spec() == wanted.spec && wanted.state == tracing_state() &&
        wanted.is_parameter == (is_parameter(tensor) || impl->is_cast_parameter());
  }
  return PyBool_FromLong(holds ? 1 : 0);
}

/// The function above for tensors like this one, in scopes like this thread's.
py::object traced_guard(const at::Tensor& tensor) {
  static PyMethodDef definition = {"is_as_traced", is_as_traced, METH_O, nullptr}; // functions refer to it
  const auto& impl = checked_values("torch.compile", tensor);
  return guard_of(
      definition, TracedArgument{impl.spec(), is_parameter(tensor) || impl.is_cast_parameter(), tracing_state()});
}

/// Attributes of a module, as the strings that Python compares by their addresses. Kept for the life of the process.
struct ModuleNames {
  PyObject* before = PyUnicode_InternFromString("_forward_pre_hooks");
  PyObject* after = PyUnicode_InternFromString("_forward_hooks");
  PyObject* replicates_plain = PyUnicode_InternFromString("_weft_replicates_plain");

  static const ModuleNames& get() {
    static const ModuleNames names;
    return names;
  }
};

/// What a call of a parallelised module does besides its forward.
struct ModuleCall {
  std::vector<py::object> before;
  std::vector<py::object> after;
  bool replicates_plain = false;
};

std::vector<py::object> hooks_of(const py::object& module, py::handle name) {
  std::vector<py::object> hooks;
  for (const auto& entry : py::reinterpret_borrow<py::dict>(py::getattr(module, name))) {
    hooks.push_back(py::reinterpret_borrow<py::object>(entry.second));
  }
  return hooks;
}

bool has_hooks(PyObject* of_module, PyObject* name, const std::vector<py::object>& hooks) {
  PyObject* found = PyDict_GetItem(of_module, name);
  if (found == nullptr || !PyDict_Check(found) || PyDict_Size(found) != static_cast<Py_ssize_t>(hooks.size())) {
    return false;
  }
  PyObject* hook = nullptr;
  Py_ssize_t place = 0;
  return std::all_of(hooks.begin(), hooks.end(), [&](const py::object& known) {
    return PyDict_Next(found, &place, nullptr, &hook) != 0 && hook == known.ptr();
  });
}

/// Whether a module is called as it was when it was traced.
PyObject* is_called_as_traced(PyObject* capsule, PyObject* module) {
  const auto& known = known_of<ModuleCall>(capsule);
  const auto of_module = py::reinterpret_steal<py::object>(PyObject_GenericGetDict(module, nullptr));
  if (!of_module) {
    PyErr_Clear();
    return PyBool_FromLong(0);
  }
  const auto& names = ModuleNames::get();
  const bool replicates_plain = PyDict_GetItem(of_module.ptr(), names.replicates_plain) == Py_True;
  const bool holds = known.replicates_plain == replicates_plain &&
      has_hooks(of_module.ptr(), names.before, known.before) && has_hooks(of_module.ptr(), names.after, known.after);
  return PyBool_FromLong(holds ? 1 : 0);
}

/// The function above for calls of this module as they are now.
py::object module_call_guard(const py::object& module) {
  static PyMethodDef definition = {"is_called_as_traced", is_called_as_traced, METH_O, nullptr};
  const auto& names = ModuleNames::get();
  return guard_of(
      definition,
      ModuleCall{
          hooks_of(module, names.before), hooks_of(module, names.after),
          py::getattr(module, names.replicates_plain, py::bool_(false)).is(py::bool_(true))});
}

} // namespace

void bind_guards(py::module_& module) {
  module.def("tracing_state", &tracing_state);
  module.def("traced_guard", &traced_guard, py::arg("tensor"));
  module.def("module_call_guard", &module_call_guard, py::arg("module"));
}

} // namespace weft::python
