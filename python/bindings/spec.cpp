#include "python/bindings/bindings.h"

#include "weft/core/picture.h"
#include "weft/core/tensor_spec.h"
#include "weft/tensor/impl/inspect.h"

namespace weft::python {

namespace {

py::object size_object(c10::IntArrayRef sizes) {
  return py::module_::import("torch").attr("Size")(sizes.vec());
}

py::tuple block_object(const LocalBlock& block) {
  return py::make_tuple(size_object(block.shape), py::tuple(py::cast(c10::IntArrayRef(block.offset).vec())));
}

/// What this rank holds, as blocks of consecutive indices: (shape, global offset, offset in the local tensor). One
/// block, unless a placement is strided; none on a rank that is not in the mesh.
py::list local_blocks(const TensorSpec& spec) {
  struct Block {
    std::vector<int64_t> shape, offset, local_offset;
  };
  std::vector<Block> blocks;
  if (spec.mesh().is_member()) {
    blocks.emplace_back();
  }
  for (int64_t d = 0; d < spec.dim() && !blocks.empty(); ++d) {
    std::vector<Block> wider;
    for (const auto& block : blocks) {
      int64_t held = 0;
      const auto& mesh = spec.mesh();
      for (const auto& run : local_runs(spec.sizes()[d], d, spec.layout(), mesh.shape(), mesh.coordinate())) {
        auto& next = wider.emplace_back(block);
        next.shape.push_back(run.length);
        next.offset.push_back(run.begin);
        next.local_offset.push_back(held);
        held += run.length;
      }
    }
    blocks = std::move(wider);
  }
  py::list result;
  for (const auto& block : blocks) {
    result.append(py::make_tuple(size_object(block.shape), size_object(block.offset), block.local_offset));
  }
  return result;
}

} // namespace

void bind_specs(py::module_& module) {
  py::class_<Layout>(
      module, "Layout",
      "The placements of a tensor and its shard order, which placements alone do not say. Functions that take "
      "placements "
      "take it too.")
      .def(py::init([](const std::string& text) { return Layout::parse(text); }), py::arg("text"))
      .def(
          "__eq__",
          [](const Layout& self, py::handle other) {
            return equal_to_another<Layout>(other, [&](const Layout& another) { return self == another; });
          })
      .def("__hash__", &Layout::hash)
      .def("__str__", &Layout::to_string)
      .def("__repr__", [](const Layout& self) { return "Layout('" + self.to_string() + "')"; });
  py::class_<TensorSpec, SpecPtr>(
      module, "TensorSpec",
      "What a distributed tensor is, apart from its data; its text parses back: f32[8,16] @ mesh(dp=2,tp=4) {S(0), "
      "R}.\n\n"
      "Pickled as that text: the mesh of an unpickled spec has no other ranks, so it serves planning alone.")
      .def_static(
          "parse", [](const std::string& text) { return TensorSpec::parse(text); }, py::arg("text"))
      .def_property_readonly("mesh", &TensorSpec::mesh)
      .def_property_readonly("placements", [](const TensorSpec& self) { return placement_objects(self.placements()); })
      .def_property_readonly("layout", [](const TensorSpec& self) { return self.layout(); })
      .def_property_readonly("shape", [](const TensorSpec& self) { return size_object(self.sizes()); })
      .def_property_readonly("stride", [](const TensorSpec& self) { return py::tuple(py::cast(self.strides().vec())); })
      .def_property_readonly("dtype", [](const TensorSpec& self) { return py::cast(self.dtype()); })
      .def_property_readonly("ndim", &TensorSpec::dim)
      .def(
          "with_sizes",
          [](const TensorSpec& self, const std::vector<int64_t>& shape, const std::vector<int64_t>& stride) {
            return TensorSpec::make(self.mesh(), self.layout(), shape, stride, self.dtype());
          },
          py::arg("shape"), py::arg("stride"), "The same mesh, layout and dtype for a tensor of other global sizes.")
      .def(
          "shard_order",
          [](const TensorSpec& self, int64_t tensor_dim) {
            const auto order = self.shard_order(tensor_dim);
            return std::vector<int64_t>(order.begin(), order.end());
          },
          py::arg("tensor_dim"), "The mesh dims that shard a tensor dim, in shard order.")
      .def(
          "local_shape_and_offset", [](const TensorSpec& self) { return block_object(self.local_shape_and_offset()); },
          "The shape of the local tensor and the global index of its first element.")
      .def(
          "local_blocks", &local_blocks,
          "What this rank holds, as blocks: (shape, global offset, offset in the local tensor).")
      .def("draw", &draw, "Which ranks hold which elements, as text.")
      .def("draw_svg", &draw_svg, "The same as an SVG image.")
      .def(
          "__eq__",
          [](const TensorSpec& self, py::handle other) {
            return equal_to_another<TensorSpec>(other, [&](const TensorSpec& another) { return &self == &another; });
          })
      .def("__hash__", &TensorSpec::hash)
      .def("__str__", &TensorSpec::to_string)
      .def("__repr__", [](const TensorSpec& self) { return "TensorSpec('" + self.to_string() + "')"; })
      .def(py::pickle(
          [](const TensorSpec& self) { return self.to_string(); },
          [](const std::string& text) { return TensorSpec::parse(text); }));
  module.def(
      "local_shape_and_offset", [](const at::Tensor& tensor) { return block_object(local_shape_and_offset(tensor)); },
      py::arg("tensor"), "The shape of the local tensor and the global index of its first element.");
  module.def(
      "local_shape_and_offset",
      [](const std::vector<int64_t>& shape, py::handle device_mesh, py::handle placements) {
        const auto mesh = mesh_from("local_shape_and_offset", device_mesh);
        return block_object(
            local_shape_and_offset(shape, mesh, layout_from("local_shape_and_offset", placements, mesh)));
      },
      py::arg("shape"), py::arg("device_mesh") = py::none(), py::arg("placements") = py::none(),
      "The same of a tensor that could be made.");
}

} // namespace weft::python
