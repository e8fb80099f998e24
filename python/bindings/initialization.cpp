#include "weft/tensor/random/initialization_scope.h"

#include "python/bindings/bindings.h"
#include "weft/nn/materialize.h"

namespace weft::python {

namespace {

/// A with statement around an InitializationScope, which belongs to one thread.
class InitializationObject {
 public:
  explicit InitializationObject(at::Generator generator) : generator_(std::move(generator)) {}

  InitializationObject& enter() {
    TORCH_CHECK_VALUE(!scope_, "[InitializationScope] this object is entered already.");
    scope_ = std::make_unique<InitializationScope>(generator_);
    return *this;
  }
  void exit() {
    scope_.reset();
  }
  bool has_written(const at::Tensor& tensor) const {
    return scope_ && scope_->has_written(tensor);
  }

 private:
  at::Generator generator_;
  std::unique_ptr<InitializationScope> scope_;
};

} // namespace

void bind_initialization(py::module_& module) {
  py::class_<InitializationObject>(
      module, "_InitializationScope", "In it random numbers are those of a generator of torch on the CPU.")
      .def(py::init<at::Generator>(), py::arg("generator"))
      .def("__enter__", &InitializationObject::enter, py::return_value_policy::reference_internal)
      .def("__exit__", [](InitializationObject& self, const py::args&) { self.exit(); })
      .def("has_written", &InitializationObject::has_written, py::arg("tensor"));
  module.def(
      "_give_memory", &nn::give_memory, py::arg("tensor"), "Gives a distributed tensor on meta memory, in place.");
}

} // namespace weft::python
