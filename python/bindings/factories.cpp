#include "weft/tensor/factories.h"

#include "python/bindings/bindings.h"
#include "weft/tensor/random.h"

#include <pybind11/complex.h>

namespace weft::python {

namespace {

/// zeros(2, 3) and zeros((2, 3)).
std::vector<int64_t> sizes_from(const py::args& size) {
  if (size.size() == 1 && py::isinstance<py::sequence>(size[0])) {
    return size[0].cast<std::vector<int64_t>>();
  }
  return size.cast<std::vector<int64_t>>();
}

using Dtype = std::optional<at::ScalarType>;

at::Scalar scalar_from(py::handle value) {
  if (py::isinstance<py::bool_>(value)) {
    return value.cast<bool>();
  }
  if (py::isinstance<py::int_>(value)) {
    return value.cast<int64_t>();
  }
  if (PyComplex_Check(value.ptr())) {
    return c10::complex<double>(value.cast<std::complex<double>>());
  }
  TORCH_CHECK_TYPE(
      PyFloat_Check(value.ptr()) || py::hasattr(value, "__float__"), "[full] fill_value must be a number, but got ",
      type_name(value), ".");
  return py::float_(py::reinterpret_borrow<py::object>(value)).cast<double>();
}

/// Older versions of torch have no conversion of layouts.
py::object strided() {
  return py::module_::import("torch").attr("strided");
}

void check_strided(const char* where, py::handle layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.is(strided()), "[", where, "] layout must be torch.strided, but got ", py::str(layout).cast<std::string>(),
      ".");
}

template <auto function>
void bind_constant(py::module_& module, const char* name, const char* doc) {
  module.def(
      name,
      [name](
          const py::args& size, Dtype dtype, py::handle layout, bool requires_grad, py::handle device_mesh,
          py::handle placements) {
        check_strided(name, layout);
        const auto mesh = mesh_from(name, device_mesh);
        const auto sizes = sizes_from(size);
        const auto where = layout_from(name, placements, mesh);
        const py::gil_scoped_release no_gil;
        return function(sizes, mesh, where, FactoryOptions{.dtype = dtype, .requires_grad = requires_grad});
      },
      py::kw_only(), py::arg("dtype") = py::none(), py::arg("layout") = strided(), py::arg("requires_grad") = false,
      py::arg("device_mesh") = py::none(), py::arg("placements") = py::none(), doc);
}

template <auto function>
void bind_random(py::module_& module, const char* name, const char* doc) {
  module.def(
      name,
      [name](
          const py::args& size, std::optional<at::Generator> generator, Dtype dtype, py::handle layout,
          bool requires_grad, py::handle device_mesh, py::handle placements) {
        check_strided(name, layout);
        const auto mesh = mesh_from(name, device_mesh);
        const auto sizes = sizes_from(size);
        const auto where = layout_from(name, placements, mesh);
        const auto chosen = dtype.value_or(at::get_default_dtype_as_scalartype());
        const py::gil_scoped_release no_gil;
        return function(
            sizes, mesh, where,
            RandomOptions{.dtype = chosen, .requires_grad = requires_grad, .generator = std::move(generator)});
      },
      py::kw_only(), py::arg("generator") = py::none(), py::arg("dtype") = py::none(), py::arg("layout") = strided(),
      py::arg("requires_grad") = false, py::arg("device_mesh") = py::none(), py::arg("placements") = py::none(), doc);
}

} // namespace

void bind_factories(py::module_& module) {
  bind_constant<&zeros>(module, "zeros", "A distributed tensor of zeros; placements default to replicated.");
  bind_constant<&ones>(module, "ones", "A distributed tensor of ones; placements default to replicated.");
  bind_constant<&empty>(module, "empty", "A distributed tensor of any values; placements default to replicated.");
  module.def(
      "full",
      [](const std::vector<int64_t>& size, py::handle fill_value, Dtype dtype, py::handle layout, bool requires_grad,
         py::handle device_mesh, py::handle placements) {
        check_strided("full", layout);
        const auto mesh = mesh_from("full", device_mesh);
        const auto where = layout_from("full", placements, mesh);
        const auto value = scalar_from(fill_value);
        const py::gil_scoped_release no_gil;
        return full(size, value, mesh, where, FactoryOptions{.dtype = dtype, .requires_grad = requires_grad});
      },
      py::arg("size"), py::arg("fill_value"), py::kw_only(), py::arg("dtype") = py::none(),
      py::arg("layout") = strided(), py::arg("requires_grad") = false, py::arg("device_mesh") = py::none(),
      py::arg("placements") = py::none(), "A distributed tensor of one value; placements default to replicated.");
  bind_random<&rand>(module, "rand", "Uniform in [0, 1): the same global tensor on any mesh and under any placements.");
  bind_random<&randn>(module, "randn", "Normal: the same global tensor on any mesh and under any placements.");
  module.def("manual_seed", &manual_seed, py::arg("seed"), "Seeds the random numbers of distributed tensors.");
  module.def("manual_seed_to_compare", &manual_seed_to_compare, py::arg("seed"));
  module.def(
      "random_state",
      [] {
        const auto state = random_state();
        return std::pair(state.seed, state.calls);
      },
      "(seed, calls so far), to be kept in a checkpoint.");
  module.def(
      "set_random_state",
      [](const std::pair<uint64_t, uint64_t>& state) { set_random_state({state.first, state.second}); },
      py::arg("state"));
}

} // namespace weft::python
