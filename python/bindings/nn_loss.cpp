#include "python/bindings/bindings.h"

#include "weft/nn/loss_parallel.h"

namespace weft::python {

namespace {

/// A with statement.
struct LossParallelObject {
  bool enabled;
  std::vector<bool> outer = {};

  void enter() {
    outer.push_back(nn::LossParallel::set_enabled(enabled));
  }
  void exit() {
    TORCH_CHECK_VALUE(!outer.empty(), "[loss_parallel] __exit__ needs an __enter__ before it.");
    nn::LossParallel::set_enabled(outer.back());
    outer.pop_back();
  }
};

} // namespace

void bind_nn_loss(py::module_& module) {
  py::class_<LossParallelObject>(
      module, "loss_parallel",
      "Cross entropy of class-sharded logits never gathers them. In this scope its target and class weights may be "
      "plain\n"
      "tensors, the same on every rank, and a call that would have to gather the logits raises.\n\n"
      "    with weft.loss_parallel():\n"
      "        loss = F.cross_entropy(logits, target)\n"
      "        loss.backward()")
      .def(py::init([](bool enabled) { return LossParallelObject{enabled}; }), py::arg("enabled") = true)
      .def("__enter__", &LossParallelObject::enter)
      .def("__exit__", [](LossParallelObject& self, const py::args&) { self.exit(); });
}

} // namespace weft::python
