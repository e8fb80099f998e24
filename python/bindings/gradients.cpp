#include "python/bindings/bindings.h"

#include "weft/nn/clip_grad_norm.h"
#include "weft/tensor/gradients/gradient_buckets.h"

#include <torch/csrc/autograd/python_variable.h>

namespace weft::python {

namespace {

std::vector<at::Tensor> tensors_from(const char* where, py::handle object) {
  std::vector<at::Tensor> tensors;
  const auto add = [&](py::handle tensor) {
    TORCH_CHECK_TYPE(
        THPVariable_Check(tensor.ptr()), "[", where, "] a tensor or several are required, but got ", type_name(tensor),
        ".");
    tensors.push_back(THPVariable_Unpack(tensor.ptr()));
  };
  if (THPVariable_Check(object.ptr()) || !py::isinstance<py::iterable>(object)) {
    add(object);
  } else {
    for (const auto tensor : py::iter(object)) {
      add(tensor);
    }
  }
  return tensors;
}

at::Tensor clip_grad_norm(
    py::handle parameters,
    double max_norm,
    const py::object& norm_type,
    bool error_if_nonfinite,
    std::optional<bool> /*foreach*/) {
  const auto tensors = tensors_from("clip_grad_norm_", parameters);
  const double order = py::float_(norm_type); // 'inf' is one too
  const py::gil_scoped_release no_gil;
  return nn::clip_grad_norm_(tensors, max_norm, order, error_if_nonfinite);
}

} // namespace

void bind_gradients(py::module_& module) {
  module.def(
      "clip_grad_norm_", &clip_grad_norm, py::arg("parameters"), py::arg("max_norm"), py::arg("norm_type") = 2.0,
      py::arg("error_if_nonfinite") = false, py::arg("foreach") = py::none(),
      "Scales the gradients, in place, so that their norm as one vector is at most max_norm; returns the norm "
      "before.\n\n"
      "As torch.nn.utils.clip_grad_norm_, with one all-reduce per mesh; it always works on lists (foreach).");
  module.def(
      "gradient_bucket_bytes", &gradient_bucket_bytes, "How many bytes of gradients are reduced together in backward.");
  module.def(
      "set_gradient_bucket_bytes", &set_gradient_bucket_bytes, py::arg("bytes"),
      "Sets how many bytes of gradients are reduced together, the same on every rank; 0: each by itself, at once.");
}

} // namespace weft::python
