#include "python/bindings/bindings.h"
#include "python/bindings/region_memory.h"

#include "weft/core/tensor_spec.h"
#include "weft/redistribute/functional_group.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/gradients/gradient_layout.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/open_sizes.h"
#include "weft/tensor/impl/operand.h"
#include "weft/tensor/random/recorded_draws.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/functional.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

namespace weft::python {

namespace {

/// The class of the Python objects of traced tensors. Kept for the life of the process.
PyTypeObject* traced_class = nullptr;

/// Gives a traced tensor its Python object, which the tensor then owns.
void give_class(const at::Tensor& tensor) {
  const py::gil_scoped_acquire gil;
  py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor, traced_class));
  tensor.unsafeGetTensorImpl()->set_python_dispatch(true); // operators on it reach the class's __torch_dispatch__
}

bool is_fake_or_functional(const at::TensorBase& tensor) {
  const py::gil_scoped_acquire gil;
  const auto type = type_name(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
  return type == "FakeTensor" || type == "FunctionalTensor";
}

void trace_as(py::handle cls, py::function name_group, py::function generalise) {
  traced_class = reinterpret_cast<PyTypeObject*>(cls.inc_ref().ptr());
  show_to_tracer_by(give_class);
  recognize_tracers_by(is_fake_or_functional);
  generalise_by([generalise = std::move(generalise)](const at::Tensor& tensor, const TensorFunction& function) {
    const py::gil_scoped_acquire gil;
    return generalise(tensor, function).cast<at::Tensor>();
  });
  name_groups_by([name_group = std::move(name_group)](const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
    const py::gil_scoped_acquire gil;
    return name_group(mesh, std::vector<int64_t>(mesh_dims.begin(), mesh_dims.end())).cast<std::string>();
  });
}

/// Calls an operator's kernel for distributed tensors, below the kernels of autograd and of tracers.
py::object call_own_kernel(
    const std::string& name,
    const std::string& overload,
    py::args args,
    const py::kwargs& kwargs) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const torch::jit::ToIValueAllowNumbersAsTensors numbers(true);
  auto stack = torch::jit::createStackForSchema(
      op.schema(), torch::jit::tuple_slice(std::move(args)), kwargs, /*self=*/std::nullopt);
  op.redispatchBoxed(c10::DispatchKeySet(kDTensorKey), &stack);
  return torch::jit::createPyObjectForStack(std::move(stack));
}

/// The distributed tensor of a local tensor, traced or not, with no way for gradients. Unlike from_local it takes the
/// local tensor itself, not an alias, which the tracer would record.
at::Tensor wrap_local_tensor(const at::Tensor& local, const SpecPtr& spec, bool is_parameter) {
  auto tensor = make_dtensor(local, spec);
  if (is_parameter) {
    as_dtensor(tensor)->become_cast_parameter();
  }
  return tensor;
}

/// Gives a traced tensor open sizes, instead of those of its spec.
void set_open_sizes(
    const at::Tensor& tensor,
    const std::vector<c10::SymInt>& sizes,
    const std::vector<c10::SymInt>& strides) {
  checked_values("torch.compile", tensor);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(c10::SymIntArrayRef(sizes), c10::SymIntArrayRef(strides));
}

/// What wrap_local_tensor makes the tensor of.
py::tuple traced_parts(const at::Tensor& tensor) {
  const auto& impl = checked_values("torch.compile", tensor);
  return py::make_tuple(impl.local(), impl.spec(), is_parameter(tensor) || impl.is_cast_parameter());
}

/// The same local tensor in a tensor of the traced class, with no way for gradients.
at::Tensor traced_form(const at::Tensor& tensor) {
  const auto parts = traced_parts(tensor);
  auto form = wrap_local_tensor(parts[0].cast<at::Tensor>(), parts[1].cast<SpecPtr>(), parts[2].cast<bool>());
  give_class(form);
  return form;
}

/// The specs of a region's arguments or results, none of plain ones. Made once, so that no call converts a list of Python.
struct RegionSpecs {
  std::vector<SpecPtr> specs;
  /// Of each tensor that is saved for backward the parameter that it is, as RegionMemory numbers them, from the call before.
  std::vector<int64_t> saved_parameters = {};
};

/// The arguments of a compiled region, of which those that have a spec are distributed: their local tensors. Counts the
/// writes to those at these places, to which the region writes.
py::list enter_compiled(const py::list& arguments, const RegionSpecs& of_region, const std::vector<size_t>& written) {
  const auto& specs = of_region.specs;
  py::list entered(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    py::handle argument = arguments[i];
    py::object value;
    if (i >= specs.size() || specs[i] == nullptr) {
      value = py::reinterpret_borrow<py::object>(argument);
    } else {
      TORCH_CHECK_TYPE(
          THPVariable_Check(argument.ptr()), "[torch.compile] a tensor ", *specs[i], " is required, but got ",
          type_name(argument), ".");
      const auto& tensor = THPVariable_Unpack(argument.ptr());
      auto& impl = checked_values("torch.compile", tensor);
      TORCH_CHECK_VALUE(
          impl.spec() == specs[i], "[torch.compile] a tensor ", *specs[i], " is required, but got ", *impl.spec(),
          ". Compile again, or redistribute it.");
      if (is_parameter(tensor) && as_dtensor(tensor)->claim_gradient_layout()) {
        keep_gradient_layout(tensor);
      }
      const bool is_written = std::find(written.begin(), written.end(), i) != written.end();
      if (is_written) {
        impl.count_write();
      }
      if (impl.is_pending()) {
        const py::gil_scoped_release let_go;
        impl.local();
      }
      const auto& local = !is_written && is_parameter(tensor) ? counting_local(impl) : impl.local();
      value = py::reinterpret_steal<py::object>(THPVariable_Wrap(local));
    }
    PyList_SET_ITEM(entered.ptr(), static_cast<Py_ssize_t>(i), value.release().ptr());
  }
  return entered;
}

py::object wrapped(at::Tensor tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(tensor)));
}

/// The results of a compiled region. Those that have a spec become distributed. What follows them is saved for backward.
py::tuple leave_compiled(const py::sequence& results, RegionSpecs& of_region, RegionMemory& memory) {
  const auto& specs = of_region.specs;
  py::tuple left(results.size());
  of_region.saved_parameters.resize(std::max(results.size(), specs.size()) - specs.size(), RegionMemory::kUnknown);
  for (size_t i = 0; i < results.size(); ++i) {
    py::object value = results[i];
    if (THPVariable_Check(value.ptr())) {
      const auto& local = THPVariable_Unpack(value.ptr());
      if (i >= specs.size()) {
        if (!memory.is_parameter(local, of_region.saved_parameters[i - specs.size()])) {
          value = wrapped(memory.saved(local));
        }
      } else {
        value = wrapped(specs[i] == nullptr ? memory.plain(local) : memory.distributed(make_dtensor(local, specs[i])));
      }
    }
    PyTuple_SET_ITEM(left.ptr(), static_cast<Py_ssize_t>(i), value.release().ptr());
  }
  return left;
}

/// The gradients that a compiled backward computes. Those that have a spec become distributed. Autograd keeps a gradient that
/// nothing else refers to, and accumulates in place: a local tensor that another tensor has too is copied.
py::tuple leave_backward(const py::sequence& results, const RegionSpecs& of_region) {
  const auto& specs = of_region.specs;
  py::tuple left(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    py::object value = results[i];
    if (i < specs.size() && specs[i] != nullptr && !value.is_none()) {
      const auto& local = THPVariable_Unpack(value.ptr());
      value = wrapped(make_dtensor(local.use_count() > 1 ? local.clone() : local, specs[i]));
    }
    PyTuple_SET_ITEM(left.ptr(), static_cast<Py_ssize_t>(i), value.release().ptr());
  }
  return left;
}

/// Runs a compiled program that draws random numbers.
py::object run_drawing(const RecordedDraws& draws, const py::object& program, const py::object& arguments) {
  std::optional<DrawnCalls> calls;
  {
    const py::gil_scoped_release let_go; // ranks may compare their seeds
    calls.emplace(draws);
  }
  return program(arguments);
}

} // namespace

void bind_tracing(py::module_& module) {
  module.def("trace_as", &trace_as, py::arg("cls"), py::arg("name_group"), py::arg("generalise"));
  module.def("call_own_kernel", &call_own_kernel);
  module.def("wrap_local_tensor", &wrap_local_tensor, py::arg("local"), py::arg("spec"), py::arg("is_parameter"));
  module.def("set_open_sizes", &set_open_sizes, py::arg("tensor"), py::arg("sizes"), py::arg("strides"));
  module.def("traced_form", &traced_form, py::arg("tensor"));
  py::class_<RegionSpecs>(module, "RegionSpecs", "The specs of a region's arguments or results, none of plain ones.")
      .def(py::init([](std::vector<SpecPtr> specs) { return RegionSpecs{std::move(specs)}; }), py::arg("specs"));
  module.def("enter_compiled", &enter_compiled, py::arg("arguments"), py::arg("specs"), py::arg("written"));
  py::class_<RegionMemory>(module, "RegionMemory", "The memory of the tensors at the boundary of a compiled region.")
      .def(py::init<const py::sequence&>(), py::arg("arguments"));
  module.def("leave_compiled", &leave_compiled, py::arg("results"), py::arg("specs"), py::arg("memory"));
  module.def("leave_backward", &leave_backward, py::arg("results"), py::arg("specs"));
  py::enum_<TracedDraws>(module, "TracedDraws", "What a thread does with draws of traced tensors.")
      .value("Refused", TracedDraws::Refused)
      .value("Unnumbered", TracedDraws::Unnumbered)
      .value("Recorded", TracedDraws::Recorded);
  py::class_<RecordedDraws>(module, "RecordedDraws", "The draws that a traced program has.")
      .def_readonly("calls", &RecordedDraws::calls);
  module.def("exchange_traced_draws", &exchange_traced_draws, py::arg("draws"));
  module.def("take_recorded_draws", &take_recorded_draws);
  module.def("run_drawing", &run_drawing, py::arg("draws"), py::arg("program"), py::arg("arguments"));
  module.def("keep_gradient_plain", &keep_gradient_plain, py::arg("plain"));
  module.def("traced_parts", &traced_parts, py::arg("tensor"));
}

} // namespace weft::python
