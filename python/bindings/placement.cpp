#include "python/bindings/bindings.h"

namespace weft::python {

namespace {

/// Python tells placements apart by class, C++ by value.
struct ReplicateObject : Placement {};
struct ShardObject : Placement {};
struct StridedShardObject : Placement {};
struct RaggedShardObject : Placement {};
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
  return placement.is_plain_shard() ? "Shard(dim=" + dim + ")"
      : placement.is_ragged() ? "RaggedShard(dim=" + dim + ", lengths=(" + c10::Join(", ", placement.lengths()) + "))"
      : placement.has_unequal_blocks()
      ? "StridedShard(dim=" + dim + ", blocks=" + c10::Join(":", placement.block_sizes()) + ")"
      : "StridedShard(dim=" + dim + ", sf=" + std::to_string(placement.split_factor()) + ")";
}

/// By what PyTorch's placements say of themselves, so that torch.distributed.tensor need not be imported.
std::optional<Placement> converted(py::handle object) {
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
  return std::nullopt;
}

bool is_of_torch(py::handle object) {
  const auto module = py::str(py::type::handle_of(object).attr("__module__")).cast<std::string>();
  return module.starts_with("torch.distributed.tensor");
}

/// Equal to a placement of PyTorch too; anything else is left to the other object.
py::object is_equal(const Placement& self, py::handle other) {
  if (py::isinstance<Placement>(other)) {
    return py::bool_(self == other.cast<const Placement&>());
  }
  const auto of_torch = is_of_torch(other) ? converted(other) : std::nullopt;
  return of_torch ? py::bool_(self == *of_torch) : py::reinterpret_borrow<py::object>(Py_NotImplemented);
}

/// The hash of PyTorch's equal placement, so that both are one key of a dict.
py::ssize_t hash_of(const Placement& placement) {
  if (placement.is_replicate()) {
    return -1;
  }
  if (placement.is_partial()) {
    return 1 + py::hash(py::str(std::string(to_string(placement.reduce_op()))));
  }
  const py::int_ dim(placement.dim());
  if (placement.has_unequal_blocks() || placement.is_ragged()) {
    return py::hash(py::make_tuple(dim, placement.to_string())); // PyTorch has none that is equal
  }
  return placement.is_strided() ? py::hash(py::make_tuple(dim, placement.split_factor())) : py::hash(dim);
}

/// What isinstance asks of a StridedShard: PyTorch's class, where that is loaded, since PyTorch's compares equal to its own
/// instances alone. The type is Weft's all the same.
py::object class_of_strided(py::handle self) {
  const py::dict modules = py::module_::import("sys").attr("modules");
  const char* name = "torch.distributed.tensor.placement_types";
  if (!modules.contains(name)) {
    return py::type::of(self);
  }
  return py::dict(modules[name].attr("__dict__"))["_StridedShard"];
}

/// Gives a type an attribute __class__, which isinstance asks for. Assigning to it would change the type's own class instead.
void set_class_of_instances(py::handle type, py::object (*class_of)(py::handle)) {
  const auto property = py::module_::import("builtins").attr("property")(py::cpp_function(class_of));
  auto* object = reinterpret_cast<PyTypeObject*>(type.ptr());
  PyDict_SetItemString(object->tp_dict, "__class__", property.ptr());
  PyType_Modified(object);
}

} // namespace

py::object placement_object(const Placement& placement) {
  if (placement.is_replicate()) {
    return py::cast(made<ReplicateObject>(placement));
  }
  if (placement.is_partial()) {
    return py::cast(made<PartialObject>(placement));
  }
  if (placement.is_plain_shard()) {
    return py::cast(made<ShardObject>(placement));
  }
  if (placement.is_ragged()) {
    return py::cast(made<RaggedShardObject>(placement));
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
  if (py::isinstance<Placement>(placement)) {
    return placement.cast<const Placement&>();
  }
  auto result = converted(placement);
  TORCH_CHECK_TYPE(
      result.has_value(), "[", where, "] a placement is required, but got ", type_name(placement),
      ". Use Shard(dim), Replicate() or Partial(reduce_op).");
  return *std::move(result);
}

void bind_placements(py::module_& module) {
  module.def(
      "placement", [](py::handle given) { return placement_object(placement_from("placement", given)); },
      py::arg("placement"), "A placement of Weft, from one of Weft or of torch.distributed.tensor.");
  module.def(
      "parse_placement", [](const std::string& text) { return placement_object(Placement::parse(text)); },
      py::arg("text"), "A placement from its text: S(0), R, P(sum), SS(0,2), S(0|3:5).");
  py::class_<Placement>(
      module, "Placement", "How a tensor is distributed over one mesh dim. A value: compared, hashed, pickled.")
      .def("is_replicate", &Placement::is_replicate)
      .def(
          "is_shard",
          [](const Placement& self, std::optional<int64_t> dim) {
            return self.is_plain_shard() && (!dim || self.dim() == *dim);
          },
          py::arg("dim") = py::none(), "Whether it is a Shard, of this dim where one is given.")
      .def(
          "is_partial",
          [](const Placement& self, const std::optional<std::string>& reduce_op) {
            return self.is_partial() && (!reduce_op || self.reduce_op() == parse_reduce_op(*reduce_op));
          },
          py::arg("reduce_op") = py::none(), "Whether it is Partial, with this reduction where one is given.")
      .def("__eq__", &is_equal)
      .def("__hash__", &hash_of)
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
  const auto strided =
      py::class_<StridedShardObject, Placement>(
          module, "StridedShard",
          "A tensor dim is divided into split_factor equal blocks, or into blocks of given sizes, each of which is "
          "sharded as by Shard; a rank holds its "
          "shard "
          "of each block.")
          .def(
              py::init([](int64_t dim, int64_t split_factor) {
                return made<StridedShardObject>(StridedShard(dim, split_factor));
              }),
              py::arg("dim"), py::kw_only(), py::arg("split_factor"))
          .def(
              py::init([](int64_t dim, const std::vector<int64_t>& blocks) {
                return made<StridedShardObject>(StridedShard(dim, blocks));
              }),
              py::arg("dim"), py::kw_only(), py::arg("blocks"), "Blocks of these sizes, relative to each other.")
          .def_property_readonly("dim", [](const StridedShardObject& self) { return self.dim(); })
          .def_property_readonly("split_factor", [](const StridedShardObject& self) { return self.split_factor(); })
          .def_property_readonly(
              "blocks",
              [](const StridedShardObject& self) {
                return py::tuple(py::cast(
                    self.has_unequal_blocks() ? self.block_sizes().vec()
                                              : std::vector<int64_t>(self.split_factor(), 1)));
              },
              "The sizes of the blocks relative to each other.")
          .def("__reduce__", [](const StridedShardObject& self) {
            return py::make_tuple(
                py::module_::import("weft._C").attr("parse_placement"), py::make_tuple(self.to_string()));
          });
  set_class_of_instances(strided, &class_of_strided);
  py::class_<RaggedShardObject, Placement>(
      module, "RaggedShard", "A tensor dim is divided into shards of the given lengths, one per rank, in their order.")
      .def(
          py::init([](int64_t dim, const std::vector<int64_t>& lengths) {
            return made<RaggedShardObject>(RaggedShard(dim, lengths));
          }),
          py::arg("dim"), py::arg("lengths"))
      .def_property_readonly("dim", [](const RaggedShardObject& self) { return self.dim(); })
      .def_property_readonly(
          "lengths", [](const RaggedShardObject& self) { return py::tuple(py::cast(self.lengths().vec())); })
      .def(pickled<RaggedShardObject>());
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
