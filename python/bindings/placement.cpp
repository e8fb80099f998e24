#include "python/bindings/bindings.h"

namespace weft::python {

namespace {

/// Python tells placements apart by class, C++ by value.
struct ReplicateObject : Placement {};
struct ShardObject : Placement {};
struct StridedShardObject : Placement {};
struct PartialObject : Placement {};

template <class Object>
Object made(const Placement& placement) {
  Object object;
  static_cast<Placement&>(object) = placement;
  return object;
}

template <class Object>
auto pickled() {
  return py::pickle(
      [](const Object& self) { return self.to_string(); },
      [](const std::string& text) { return made<Object>(Placement::parse(text)); });
}

std::string representation(const Placement& placement) {
  if (placement.is_replicate()) {
    return "Replicate()";
  }
  if (placement.is_partial()) {
    return "Partial(" + std::string(to_string(placement.reduce_op())) + ")";
  }
  const auto dim = std::to_string(placement.dim());
  return placement.split_factor() == 1
      ? "Shard(dim=" + dim + ")"
      : "StridedShard(dim=" + dim + ", sf=" + std::to_string(placement.split_factor()) + ")";
}

/// By what PyTorch's placements say of themselves, so that torch.distributed.tensor need not be imported.
Placement converted(const char* where, py::handle object) {
  const auto name = type_name(object);
  if (name == "Replicate") {
    return Replicate();
  }
  if (name == "Shard") {
    return Shard(object.attr("dim").cast<int64_t>());
  }
  if (name == "_StridedShard") {
    return StridedShard(object.attr("dim").cast<int64_t>(), object.attr("split_factor").cast<int64_t>());
  }
  if (name == "Partial") {
    return Partial(parse_reduce_op(object.attr("reduce_op").cast<std::string>()));
  }
  TORCH_CHECK_TYPE(
      false, "[", where, "] a placement is required, but got ", name,
      ". Use Shard(dim), Replicate() or Partial(reduce_op).");
}

} // namespace

py::object placement_object(const Placement& placement) {
  if (placement.is_replicate()) {
    return py::cast(made<ReplicateObject>(placement));
  }
  if (placement.is_partial()) {
    return py::cast(made<PartialObject>(placement));
  }
  if (placement.split_factor() == 1) {
    return py::cast(made<ShardObject>(placement));
  }
  return py::cast(made<StridedShardObject>(placement));
}

py::tuple placement_objects(c10::ArrayRef<Placement> placements) {
  py::tuple result(placements.size());
  for (size_t m = 0; m < placements.size(); ++m) {
    result[m] = placement_object(placements[m]);
  }
  return result;
}

Placement placement_from(const char* where, py::handle placement) {
  return py::isinstance<Placement>(placement) ? placement.cast<const Placement&>() : converted(where, placement);
}

void bind_placements(py::module_& module) {
  module.def(
      "placement", [](py::handle given) { return placement_object(placement_from("placement", given)); },
      py::arg("placement"), "A placement of Weft, from one of Weft or of torch.distributed.tensor.");
  py::class_<Placement>(
      module, "Placement", "How a tensor is distributed over one mesh dim. A value: compared, hashed, pickled.")
      .def("is_replicate", &Placement::is_replicate)
      .def(
          "is_shard",
          [](const Placement& self, std::optional<int64_t> dim) {
            return self.is_shard() && self.split_factor() == 1 && (!dim || self.dim() == *dim);
          },
          py::arg("dim") = py::none(), "Whether it is a Shard, of this dim where one is given.")
      .def(
          "is_partial",
          [](const Placement& self, const std::optional<std::string>& reduce_op) {
            return self.is_partial() && (!reduce_op || self.reduce_op() == parse_reduce_op(*reduce_op));
          },
          py::arg("reduce_op") = py::none(), "Whether it is Partial, with this reduction where one is given.")
      .def(
          "__eq__",
          [](const Placement& self, py::handle other) {
            return equal_to_another<Placement>(other, [&](const Placement& another) { return self == another; });
          })
      .def("__hash__", &Placement::hash)
      .def("__str__", &Placement::to_string)
      .def("__repr__", &representation);
  py::class_<ReplicateObject, Placement>(module, "Replicate", "Every rank holds the same value.")
      .def(py::init<>())
      .def(pickled<ReplicateObject>());
  py::class_<ShardObject, Placement>(
      module, "Shard", "A tensor dim is divided as torch.chunk does, one shard per rank.")
      .def(py::init([](int64_t dim) { return made<ShardObject>(Shard(dim)); }), py::arg("dim"))
      .def_property_readonly("dim", [](const ShardObject& self) { return self.dim(); })
      .def(pickled<ShardObject>());
  py::class_<StridedShardObject, Placement>(
      module, "StridedShard",
      "A tensor dim is divided into split_factor blocks, each of which is sharded as by Shard; a rank holds its shard "
      "of each block.")
      .def(
          py::init([](int64_t dim, int64_t split_factor) {
            return made<StridedShardObject>(StridedShard(dim, split_factor));
          }),
          py::arg("dim"), py::kw_only(), py::arg("split_factor"))
      .def_property_readonly("dim", [](const StridedShardObject& self) { return self.dim(); })
      .def_property_readonly("split_factor", [](const StridedShardObject& self) { return self.split_factor(); })
      .def(pickled<StridedShardObject>());
  py::class_<PartialObject, Placement>(
      module, "Partial", "Every rank holds a term; the value is their reduction: sum, avg, max, min or product.")
      .def(
          py::init(
              [](const std::string& reduce_op) { return made<PartialObject>(Partial(parse_reduce_op(reduce_op))); }),
          py::arg("reduce_op") = "sum")
      .def_property_readonly("reduce_op", [](const PartialObject& self) { return to_string(self.reduce_op()); })
      .def(pickled<PartialObject>());
}

} // namespace weft::python
