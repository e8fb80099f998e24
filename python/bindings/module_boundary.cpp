#include "python/bindings/module_boundary.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

namespace weft::python {

namespace {

using nn::Crossing;

constexpr const char* kCapsule = "weft.ModuleBoundary";

/// The boundary that a hook belongs to.
const ModuleBoundary& boundary_of(PyObject* capsule) {
  return *static_cast<const ModuleBoundary*>(PyCapsule_GetPointer(capsule, kCapsule));
}

/// The value after the crossing; a value that is no tensor stays.
template <class Cross>
py::object crossed(const ModuleBoundary& boundary, PyObject* value, const Cross& cross) {
  if (!THPVariable_Check(value)) {
    return py::reinterpret_borrow<py::object>(value);
  }
  const auto& tensor = THPVariable_Unpack(value);
  at::Tensor result;
  if (boundary.communicates) {
    const py::gil_scoped_release let_go;
    result = cross(tensor);
  } else {
    result = cross(tensor);
  }
  return result.is_same(tensor) ? py::reinterpret_borrow<py::object>(value)
                                : py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(result)));
}

py::object entered(const ModuleBoundary& boundary, PyObject* value, const Crossing& crossing) {
  return crossed(boundary, value, [&](const at::Tensor& tensor) {
    return boundary.crosser.enter(tensor, crossing, boundary.local_inputs);
  });
}

py::object left(const ModuleBoundary& boundary, PyObject* value, const Crossing& crossing) {
  return crossed(boundary, value, [&](const at::Tensor& tensor) {
    return boundary.crosser.leave(tensor, crossing, boundary.local_outputs);
  });
}

py::tuple all_entered(const ModuleBoundary& boundary, PyObject* inputs) {
  const auto count = PyTuple_GET_SIZE(inputs);
  py::tuple result(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    auto* value = PyTuple_GET_ITEM(inputs, i);
    auto after = i < std::ssize(boundary.inputs) ? entered(boundary, value, boundary.inputs[i])
                                                 : py::reinterpret_borrow<py::object>(value);
    PyTuple_SET_ITEM(result.ptr(), i, after.release().ptr());
  }
  return result;
}

py::dict all_entered_by_keyword(const ModuleBoundary& boundary, py::handle inputs) {
  py::dict result;
  for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(inputs)) {
    const auto found = boundary.keyword_inputs.find(name.cast<std::string>());
    result[name] = found == boundary.keyword_inputs.end() ? py::reinterpret_borrow<py::object>(value)
                                                          : entered(boundary, value.ptr(), found->second);
  }
  return result;
}

/// Of one output, or of a tuple or list of several.
py::object all_left(const ModuleBoundary& boundary, PyObject* outputs) {
  if (!PyTuple_Check(outputs) && !PyList_Check(outputs)) {
    return left(boundary, outputs, boundary.outputs[0]);
  }
  py::list result;
  for (const auto output : py::handle(outputs)) {
    const auto position = result.size();
    result.append(
        position < boundary.outputs.size() ? left(boundary, output.ptr(), boundary.outputs[position])
                                           : py::reinterpret_borrow<py::object>(output));
  }
  return PyTuple_Check(outputs) ? py::object(py::tuple(result)) : py::object(result);
}

void check_count(Py_ssize_t count, Py_ssize_t expected) {
  TORCH_CHECK_TYPE(count == expected, "[hook] a hook of a module takes ", expected, " arguments, but got ", count, ".");
}

/// hook(module, inputs)
PyObject* input_hook(PyObject* capsule, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  check_count(count, 2);
  return all_entered(boundary_of(capsule), arguments[1]).release().ptr();
  END_HANDLE_TH_ERRORS
}

/// hook(module, inputs, keyword_inputs)
PyObject* keyword_input_hook(PyObject* capsule, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  check_count(count, 3);
  const auto& boundary = boundary_of(capsule);
  const auto inputs = all_entered(boundary, arguments[1]);
  return py::make_tuple(inputs, all_entered_by_keyword(boundary, arguments[2])).release().ptr();
  END_HANDLE_TH_ERRORS
}

/// hook(module, inputs, outputs)
PyObject* output_hook(PyObject* capsule, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  check_count(count, 3);
  return all_left(boundary_of(capsule), arguments[2]).release().ptr();
  END_HANDLE_TH_ERRORS
}

using Hook = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t);

PyMethodDef definition(const char* name, Hook hook) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(hook)), METH_FASTCALL, nullptr};
}

py::object function_of(PyMethodDef& definition, const py::capsule& boundary) {
  return py::reinterpret_steal<py::object>(PyCFunction_New(&definition, boundary.ptr()));
}

} // namespace

BoundaryHooks hooks_of(ModuleBoundary boundary) {
  // A function refers to its definition.
  static PyMethodDef input = definition("enter_module", input_hook);
  static PyMethodDef keyword_input = definition("enter_module_with_keywords", keyword_input_hook);
  static PyMethodDef output = definition("leave_module", output_hook);
  const bool has_inputs = !boundary.inputs.empty();
  const bool has_keyword_inputs = !boundary.keyword_inputs.empty();
  const bool has_outputs = !boundary.outputs.empty();
  const py::capsule capsule(new ModuleBoundary(std::move(boundary)), kCapsule, [](PyObject* made) {
    delete static_cast<ModuleBoundary*>(PyCapsule_GetPointer(made, kCapsule));
  });
  BoundaryHooks hooks{py::none(), py::none(), py::none()};
  if (has_keyword_inputs) {
    hooks.keyword_input = function_of(keyword_input, capsule);
  } else if (has_inputs) {
    hooks.input = function_of(input, capsule);
  }
  if (has_outputs) {
    hooks.output = function_of(output, capsule);
  }
  return hooks;
}

} // namespace weft::python
