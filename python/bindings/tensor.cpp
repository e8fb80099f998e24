#include "python/bindings/bindings.h"

#include "weft/tensor/distribute.h"
#include "weft/tensor/gradients/gradient_layout.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/move_observer.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

namespace weft::python {

namespace {

bool is_distributed(py::handle object) {
  return THPVariable_Check(object.ptr()) && is_dtensor(THPVariable_Unpack(object.ptr()));
}

const at::Tensor& tensor_from(const char* where, py::handle object) {
  TORCH_CHECK_TYPE(
      THPVariable_Check(object.ptr()), "[", where, "] a tensor is required, but got ", type_name(object), ".");
  return THPVariable_Unpack(object.ptr());
}

/// A tensor to be distributed. Raises for a subclass that runs operators by itself, such as torch's DTensor: its memory is
/// that of another tensor. What is still on its way (torch's functional collectives) is waited for.
at::Tensor given_tensor(const char* where, py::handle object, bool may_be_traced = false) {
  const auto& tensor = tensor_from(where, object);
  if (!tensor.key_set().has(c10::DispatchKey::Python) || (may_be_traced && is_of_tracer(tensor))) {
    return tensor;
  }
  const auto type = type_name(object);
  TORCH_CHECK_TYPE(
      type == "AsyncCollectiveTensor" || type == "AsyncLocalTensor", "[", where,
      "] a plain tensor is required, but got ", type, ", which runs operators by itself (__torch_dispatch__). ",
      type == "DTensor" ? "Use weft.from_torch." : "Give the tensor that it wraps.");
  // What waits for a tensor does not know its graph; an operator does.
  return tensor.requires_grad() ? tensor.clone() : object.attr("wait")().cast<at::Tensor>();
}

at::Tensor from_local_tensor(
    py::handle local_tensor,
    py::handle device_mesh,
    py::handle placements,
    bool run_check,
    std::optional<std::vector<int64_t>> shape,
    std::optional<std::vector<int64_t>> stride,
    py::handle grad_placements) {
  const auto local = given_tensor("from_local", local_tensor, /*may_be_traced=*/true);
  const auto mesh = mesh_from("from_local", device_mesh);
  const auto layout = layout_from("from_local", placements, mesh);
  auto options = shape && !stride ? with_global_shape(*shape) : FromLocalOptions{};
  options.run_check = run_check;
  options.grad_placements = optional_layout_from("from_local", grad_placements);
  if (stride) {
    options.shape = std::move(shape);
    options.stride = std::move(stride);
  }
  const py::gil_scoped_release no_gil;
  return from_local(local, mesh, layout, options);
}

at::Tensor distribute(
    py::handle tensor,
    py::handle device_mesh,
    py::handle placements,
    std::optional<int64_t> src_data_rank) {
  const auto global = given_tensor("distribute_tensor", tensor);
  const auto mesh = mesh_from("distribute_tensor", device_mesh);
  const auto layout = layout_from("distribute_tensor", placements, mesh);
  const py::gil_scoped_release no_gil;
  return distribute_tensor(global, mesh, layout, {.src_data_rank = src_data_rank});
}

at::Tensor redistribute_tensor(
    py::handle tensor,
    py::handle device_mesh,
    py::handle placements,
    bool async_op,
    std::optional<at::ScalarType> forward_dtype,
    std::optional<at::ScalarType> backward_dtype) {
  const auto& distributed = tensor_from("redistribute", tensor);
  RedistributeOptions options{.async_op = async_op, .forward_dtype = forward_dtype, .backward_dtype = backward_dtype};
  if (!device_mesh.is_none()) {
    options.mesh = mesh_from("redistribute", device_mesh);
  }
  const auto layout = optional_layout_from("redistribute", placements);
  TORCH_CHECK_VALUE(layout.has_value(), "[redistribute] placements are required, but got none. Write [Replicate()].");
  const py::gil_scoped_release no_gil;
  return redistribute(distributed, *layout, options);
}

/// Makes a tensor without memory raise where C++ asks for it, instead of giving a null pointer.
void refuse_memory(py::handle object) {
  tensor_from("AsyncLocalTensor", object)
      .unsafeGetTensorImpl()
      ->release_storage_and_set_meta_custom_data_ptr_error_msg_(
          "[AsyncLocalTensor] a tensor whose values have arrived is required, but got one that a collective still "
          "writes. Give its wait().");
}

template <auto function>
at::Tensor to_plain(const char* where, py::handle tensor, py::handle grad_placements) {
  const auto& distributed = tensor_from(where, tensor);
  const ToLocalOptions options{.grad_placements = optional_layout_from(where, grad_placements)};
  const py::gil_scoped_release no_gil;
  return function(distributed, options);
}

bool is_unchanged(const at::Tensor& given, const at::Tensor& local) {
  return given.defined() && !given.requires_grad() && given.is_alias_of(local) && given.sizes() == local.sizes() &&
      given.strides() == local.strides() && given.storage_offset() == local.storage_offset() &&
      given.scalar_type() == local.scalar_type() && given.is_conj() == local.is_conj() &&
      given.is_neg() == local.is_neg();
}

/// The local tensor without a way for gradients: one object, as long as the user does not change what it is.
at::Tensor plain_local(const at::Tensor& distributed, DTensorImpl& impl) {
  const bool is_kept = !impl.is_copy_of_base() && !impl.is_inference() && !c10::InferenceMode::is_enabled() &&
      MoveObserver::of_thread() == nullptr;
  if (impl.is_pending()) {
    const py::gil_scoped_release no_gil;
    impl.local();
  }
  if (is_kept && is_unchanged(impl.given_local(), impl.local())) {
    return impl.given_local();
  }
  const at::NoGradGuard no_graph;
  auto local = to_local(distributed);
  if (is_kept) {
    impl.keep_given_local(local);
  }
  return local;
}

/// A tensor that waits when it is read, if a collective still writes the local tensor.
py::object to_local_or_async(py::handle tensor, py::handle grad_placements) {
  const auto& distributed = tensor_from("to_local", tensor);
  auto* impl = as_dtensor(distributed);
  if (impl != nullptr && impl->is_pending() && !impl->is_stale() && grad_placements.is_none() &&
      distributed.is_contiguous()) {
    return py::module_::import("weft._async_local").attr("to_local")(tensor);
  }
  const bool has_graph = at::GradMode::is_enabled() && distributed.requires_grad();
  if (impl != nullptr && !impl->is_stale() && grad_placements.is_none() && !has_graph && !has_tangent(distributed)) {
    return py::cast(plain_local(distributed, *impl));
  }
  return py::cast(to_plain<&to_local>("to_local", tensor, grad_placements));
}

} // namespace

void bind_tensors(py::module_& module) {
  module.def("is_dtensor", &is_distributed, py::arg("object"), "Whether an object is a distributed tensor.");
  module.def(
      "from_local", &from_local_tensor, py::arg("local_tensor"), py::arg("device_mesh") = py::none(),
      py::arg("placements") = py::none(), py::kw_only(), py::arg("run_check") = false, py::arg("shape") = py::none(),
      py::arg("stride") = py::none(), py::arg("grad_placements") = py::none(),
      "The distributed tensor whose local tensor on this rank is local_tensor; shares its memory. Without a shape, "
      "all\n"
      "ranks must hold shards of one size.");
  module.def(
      "distribute_tensor", &distribute, py::arg("tensor"), py::arg("device_mesh") = py::none(),
      py::arg("placements") = py::none(), py::kw_only(), py::arg("src_data_rank") = 0,
      "The distributed form of a global tensor, which every rank gives; the values of src_data_rank count. With None\n"
      "nothing is communicated, and each rank takes its shard of its own tensor.");
  module.def(
      "redistribute", &redistribute_tensor, py::arg("tensor"), py::arg("device_mesh") = py::none(),
      py::arg("placements") = py::none(), py::kw_only(), py::arg("async_op") = false,
      py::arg("forward_dtype") = py::none(), py::arg("backward_dtype") = py::none(),
      "The same tensor under other placements, by the cheapest collectives. Every rank of the mesh must call it.");
  module.def(
      "to_local", &to_local_or_async, py::arg("tensor"), py::kw_only(), py::arg("grad_placements") = py::none(),
      "The local tensor of this rank; shares its memory with the distributed one. After redistribute with async_op it "
      "is\n"
      "an AsyncCollectiveTensor, which waits when it is read.");
  module.def(
      "local_tensor",
      [](py::handle tensor) {
        const auto& distributed = tensor_from("_local_tensor", tensor);
        return plain_local(distributed, checked_values("_local_tensor", distributed));
      },
      py::arg("tensor"), "The local tensor of this rank, without a way for gradients.");
  module.def(
      "arrived_local", [](py::handle tensor) { return to_plain<&to_local>("to_local", tensor, py::none()); },
      py::arg("tensor"), "As to_local, but waits.");
  module.def("refuse_memory", &refuse_memory, py::arg("tensor"));
  module.def(
      "full_tensor",
      [](py::handle tensor, py::handle grad_placements) {
        return to_plain<&full_tensor>("full_tensor", tensor, grad_placements);
      },
      py::arg("tensor"), py::kw_only(), py::arg("grad_placements") = py::none(), "The global tensor, on every rank.");
  module.def(
      "placements", [](py::handle tensor) { return placement_objects(placements(tensor_from("placements", tensor))); },
      py::arg("tensor"), "One placement per mesh dim.");
  module.def(
      "device_mesh", [](py::handle tensor) { return mesh_of(tensor_from("device_mesh", tensor)); }, py::arg("tensor"),
      "The mesh that the tensor is distributed over.");
  module.def(
      "spec", [](py::handle tensor) { return spec_of(tensor_from("spec", tensor)); }, py::arg("tensor"),
      "What the tensor is: mesh, placements, global shape and strides, dtype.");
  module.def(
      "keep_gradient_layout", &keep_gradient_layout, py::arg("leaf"),
      "Keeps the gradients of a leaf in the leaf's layout; needed again where its hooks were replaced.");
  module.def(
      "to_string",
      [](py::handle tensor) {
        const auto& any = tensor_from("to_string", tensor);
        const py::gil_scoped_release no_gil;
        return to_string(any);
      },
      py::arg("tensor"), "The spec, then what this rank holds.");
}

} // namespace weft::python
