#include "python/bindings/bindings.h"

#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/parallel_forward.h"
#include "weft/tensor/impl/replicated_plain.h"

#include <pybind11/functional.h>

namespace weft::python {

namespace {

/// A with statement that sets one of the thread's scopes.
template <auto member>
struct ScopeObject {
  using Value = typename ScopeOf<member>::Value;
  const char* name;
  Value value;
  std::vector<Value> outer = {};

  void enter() {
    outer.push_back(Scopes::exchange<member>(value));
  }
  void exit() {
    TORCH_CHECK_VALUE(!outer.empty(), "[", name, "] __exit__ needs an __enter__ before it.");
    Scopes::exchange<member>(Value(outer.back()));
    outer.pop_back();
  }
};

template <auto member>
py::class_<ScopeObject<member>> bind_scope(py::module_& module, const char* name, const char* doc) {
  using Object = ScopeObject<member>;
  return py::class_<Object>(module, name, doc)
      .def("__enter__", &Object::enter)
      .def("__exit__", [](Object& self, const py::args&) { self.exit(); });
}

/// A function that sets a switch and returns its former value, for a with statement in Python.
template <bool Scopes::*member>
void bind_switch(py::module_& module, const char* name) {
  module.def(name, &Scopes::exchange<member, bool>, py::arg("enabled"), "Sets the switch; returns its former value.");
}

/// The log of a with statement; what it has seen stays after the end.
class Explained {
 public:
  Explained& enter() {
    TORCH_CHECK_VALUE(!log_, "[explain] this object is entered already. Write `with weft.explain() as e:`.");
    log_ = std::make_unique<ExplainLog>();
    return *this;
  }
  void exit() {
    calls_ = calls();
    log_.reset();
  }
  std::vector<std::shared_ptr<const Explanation>> calls() const {
    return log_ ? log_->calls() : calls_;
  }
  std::string to_string() const {
    return weft::to_string(calls());
  }

 private:
  std::unique_ptr<ExplainLog> log_;
  std::vector<std::shared_ptr<const Explanation>> calls_;
};

} // namespace

void bind_scopes(py::module_& module) {
  bind_switch<&Scopes::strict>(module, "exchange_strict");
  bind_switch<&Scopes::replicate_plain>(module, "exchange_replicate_plain");
  bind_switch<&Scopes::loss_parallel>(module, "exchange_loss_parallel");
  module.def(
      "exchange_parallel_forward", &ParallelForward::exchange, py::arg("active"),
      "Sets whether this thread runs the forward of a parallelised module, in which plain tensors count as "
      "replicated;\n"
      "returns whether it did.");
  module.def(
      "in_parallel_forward", &ParallelForward::is_active,
      "Whether this thread runs the forward of a parallelised module.");
  module.def(
      "enter_vmap", &enter_vmap,
      "torch.vmap begins: plain tensors that its rules in C++ make count as replicated until leave_vmap().");
  module.def("leave_vmap", &leave_vmap, "torch.vmap ends.");
  module.def(
      "counts_as_replicated", &counts_as_replicated, py::arg("plain"),
      "Whether a plain tensor may be used among distributed ones here.");
  using Debug = ScopeObject<&Scopes::debug>;
  bind_scope<&Scopes::debug>(
      module, "debug",
      "In it ranks compare what they are about to do before every operator; the first difference is an error.")
      .def(py::init([](bool enabled) { return Debug{"debug", enabled}; }), py::arg("enabled") = true);
  using Overlap = ScopeObject<&Scopes::overlap>;
  bind_scope<&Scopes::overlap>(
      module, "overlap",
      "Says when matmuls on distributed tensors overlap the all-gather of their operand: 'auto', where it pays as\n"
      "measured; 'off', never; 'force', wherever they can. Every rank must say the same.")
      .def(
          py::init([](const std::string& mode) { return Overlap{"overlap", parse_overlap_mode(mode)}; }),
          py::arg("mode") = "auto");

  using Watch = ScopeObject<&Scopes::redistribution_watch>;
  bind_scope<&Scopes::redistribution_watch>(
      module, "redistribution_watch", "What ExplicitRedistributionContext sets. Without warn an error is raised.")
      .def(
          py::init([](bool enable, bool counts_free_ones, std::function<void(const std::string&)> warn) {
            const RedistributionWatch watch{.counts_free_ones = counts_free_ones, .warn = std::move(warn)};
            return Watch{
                "ExplicitRedistributionContext", enable ? std::make_shared<const RedistributionWatch>(watch) : nullptr};
          }),
          py::arg("enable"), py::arg("counts_free_ones"), py::arg("warn"));

  py::class_<Explanation, std::shared_ptr<Explanation>>(module, "Explanation", "Why a call was run as it was.")
      .def_readonly("op", &Explanation::op)
      .def_readonly("inputs", &Explanation::inputs)
      .def_readonly("strategy", &Explanation::strategy)
      .def_readonly("plans", &Explanation::plans)
      .def_readonly("bytes", &Explanation::bytes)
      .def_readonly("why", &Explanation::why)
      .def("__str__", &Explanation::to_string)
      .def("__repr__", [](const Explanation& self) { return "<Explanation of " + self.op + ">"; });
  py::class_<Explained>(
      module, "explain",
      "Records how operators are run.\n\n"
      "    with weft.explain() as e:\n"
      "        y = linear(x)\n"
      "    print(e)")
      .def(py::init<>())
      .def("__enter__", &Explained::enter, py::return_value_policy::reference)
      .def("__exit__", [](Explained& self, const py::args&) { self.exit(); })
      .def_property_readonly(
          "calls",
          [](const Explained& self) {
            py::list calls;
            for (const auto& call : self.calls()) {
              calls.append(py::cast(std::const_pointer_cast<Explanation>(call)));
            }
            return calls;
          })
      .def("__str__", &Explained::to_string);
}

} // namespace weft::python
