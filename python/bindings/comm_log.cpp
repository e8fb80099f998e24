#include "weft/comm/comm_log.h"

#include "python/bindings/bindings.h"
#include "weft/comm/communicator.h"

#include <pybind11/functional.h>

namespace weft::python {

namespace {

/// Counts collectives by the module they are made in, which Python names.
class CommCounter {
 public:
  struct Row {
    std::string module;
    CommLog::Row counts;
  };

  /// `on_call`, if there is one, is called with the name of every collective when it is made.
  void attach(
      const c10::intrusive_ptr<Communicator>& world,
      const std::optional<std::function<void(std::string)>>& on_call) {
    world_ = world;
    CommLog::Listener listener;
    if (on_call) {
      listener = [on_call](Collective collective) { (*on_call)(std::string(to_string(collective))); };
    }
    log_ = std::make_unique<CommLog>(DeviceMesh(world, c10::kCPU, {1}), std::move(listener));
  }
  void detach() {
    collect();
    log_.reset();
  }
  /// What follows is made in this module.
  void set_module(std::string module) {
    collect();
    module_ = std::move(module);
  }
  std::vector<Row> rows() {
    collect();
    std::vector<Row> result;
    for (const auto& [key, row] : rows_) {
      result.push_back(row);
    }
    return result;
  }

 private:
  void collect() {
    if (!log_) {
      return;
    }
    for (auto& counts : log_->rows()) {
      auto& row = rows_[{module_, counts.operator_name, counts.collective, counts.mesh_dims}];
      counts.calls += row.counts.calls;
      counts.bytes += row.counts.bytes;
      row = {module_, std::move(counts)};
    }
    log_->clear();
  }

  c10::intrusive_ptr<Communicator> world_;
  std::unique_ptr<CommLog> log_;
  std::string module_;
  std::map<std::tuple<std::string, std::string, Collective, std::string>, Row> rows_;
};

} // namespace

void bind_comm_log(py::module_& module) {
  using Row = CommCounter::Row;
  py::class_<Row>(module, "CommRow", "How often one collective was made by one operator in one module.")
      .def_readonly("module", &Row::module)
      .def_property_readonly("operator", [](const Row& self) { return self.counts.operator_name; })
      .def_property_readonly("collective", [](const Row& self) { return to_string(self.counts.collective); })
      .def_property_readonly("mesh_dims", [](const Row& self) { return self.counts.mesh_dims; })
      .def_property_readonly("calls", [](const Row& self) { return self.counts.calls; })
      .def_property_readonly(
          "bytes", [](const Row& self) { return self.counts.bytes; }, "What this rank received from others.");
  py::class_<CommCounter>(module, "CommCounter")
      .def(py::init<>())
      .def("attach", &CommCounter::attach, py::arg("world"), py::arg("on_call") = py::none())
      .def("detach", &CommCounter::detach)
      .def("set_module", &CommCounter::set_module, py::arg("module"))
      .def("rows", &CommCounter::rows);
}

} // namespace weft::python
