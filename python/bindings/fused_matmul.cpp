#include "python/bindings/bindings.h"
#include "weft/comm/communicator.h"
#include "weft/core/shard_math.h"
#include "weft/overlap/mesh_matmul.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <pybind11/stl.h>

namespace weft::python {

namespace {

using TensorOrTensors = std::variant<at::Tensor, std::vector<at::Tensor>>;

std::vector<at::Tensor> plain(const char* where, const TensorOrTensors& given) {
  const auto* one = std::get_if<at::Tensor>(&given);
  auto tensors = one != nullptr ? std::vector{*one} : std::get<std::vector<at::Tensor>>(given);
  for (const auto& tensor : tensors) {
    TORCH_CHECK_TYPE(
        !is_dtensor(tensor), "[", where,
        "] plain tensors are required, one rank's each, but got a distributed one of shape ", tensor.sizes(),
        ". Call a matmul on distributed tensors: it overlaps its collective where that pays.");
  }
  return tensors;
}

/// Bytes of the largest shard of a dim: the same on every rank.
int64_t shard_bytes(c10::IntArrayRef sizes, int64_t dim, int64_t global_size, int64_t members, c10::ScalarType dtype) {
  const auto largest = largest_local_shape(with_size(sizes, dim, global_size), {Shard(dim)}, members);
  return c10::multiply_integers(largest) * static_cast<int64_t>(c10::elementSize(dtype));
}

py::object gather_matmul(
    const at::Tensor& shard,
    const TensorOrTensors& others,
    py::handle mesh,
    int64_t dim,
    py::handle mesh_dim,
    const std::vector<std::optional<at::Tensor>>& biases,
    std::optional<int64_t> size,
    std::optional<int64_t> chunks,
    bool gathered) {
  constexpr const char* kWhere = "all_gather_matmul";
  const auto on = mesh_from(kWhere, mesh);
  const auto dims = mesh_dims_from(kWhere, on, mesh_dim);
  const auto plain_others = plain(kWhere, others);
  plain(kWhere, shard);
  dim = c10::maybe_wrap_dim(dim, shard.dim());
  if (!chunks) {
    const auto members = on.group_size(dims);
    const auto global_size = size.value_or(shard.size(dim) * members);
    chunks = usual_chunks(shard_bytes(shard.sizes(), dim, global_size, members, shard.scalar_type()));
  }
  std::vector<at::Tensor> given_biases;
  for (const auto& bias : biases) {
    given_biases.push_back(bias.value_or(at::Tensor()));
  }
  GatheredMatmul result;
  {
    const py::gil_scoped_release release;
    result = all_gather_matmul(
        shard, plain_others, on, dims, {.dim = dim, .size = size, .chunks = *chunks, .keeps_gathered = gathered},
        given_biases);
  }
  const bool is_one = std::holds_alternative<at::Tensor>(others);
  const auto outputs = is_one ? py::cast(result.outputs[0]) : py::cast(result.outputs);
  return gathered ? py::object(py::make_tuple(outputs, result.gathered)) : outputs;
}

at::Tensor scatter_matmul(
    const TensorOrTensors& inputs,
    const TensorOrTensors& others,
    py::handle mesh,
    int64_t dim,
    py::handle mesh_dim,
    const std::optional<at::Tensor>& bias,
    const std::string& reduce_op,
    std::optional<int64_t> chunks,
    std::optional<at::ScalarType> dtype) {
  constexpr const char* kWhere = "matmul_reduce_scatter";
  const auto on = mesh_from(kWhere, mesh);
  const auto dims = mesh_dims_from(kWhere, on, mesh_dim);
  const auto lefts = plain(kWhere, inputs);
  const auto rights = plain(kWhere, others);
  TORCH_CHECK_VALUE(
      !lefts.empty() && lefts.size() == rights.size() && lefts[0].dim() > 0 && rights[0].dim() > 0, "[", kWhere,
      "] as many others as inputs are required, at least one, but got ", rights.size(), " for ", lefts.size(), ".");
  dim = c10::maybe_wrap_dim(dim, lefts[0].dim());
  if (!chunks) {
    auto sizes = lefts[0].sizes().vec();
    sizes.back() = rights[0].size(-1);
    const auto sent = dtype.value_or(lefts[0].scalar_type());
    chunks = usual_chunks(shard_bytes(sizes, dim, sizes[dim], on.group_size(dims), sent));
  }
  const MatmulScatterOptions options{.dim = dim, .op = parse_reduce_op(reduce_op), .chunks = *chunks, .dtype = dtype};
  const py::gil_scoped_release release;
  return matmul_reduce_scatter(lefts, rights, on, dims, options, bias.value_or(at::Tensor()));
}

} // namespace

void bind_fused_matmul(py::module_& module) {
  module.def(
      "all_gather_matmul", &gather_matmul, py::arg("shard"), py::arg("others"), py::arg("mesh") = py::none(),
      py::kw_only(), py::arg("dim") = 0, py::arg("mesh_dim") = py::none(),
      py::arg("biases") = std::vector<std::optional<at::Tensor>>(), py::arg("size") = py::none(),
      py::arg("chunks") = py::none(), py::arg("gathered") = false,
      "The shards of all ranks, concatenated along `dim`, times each of `others`: a chunk that has arrived is "
      "multiplied\n"
      "while the others are under way, in `chunks` per shard.\n\n"
      "    q, k, v = weft.all_gather_matmul(x, [wq, wk, wv], mesh, dim=1, mesh_dim='tp')\n\n"
      "On plain tensors; `others` are [inner, columns], one or several. Shards are of one size, or `size` is the "
      "global\n"
      "size of `dim`, sharded as by torch.chunk. With `gathered` the gathered tensor is returned too. "
      "Differentiable.");
  module.def(
      "matmul_reduce_scatter", &scatter_matmul, py::arg("inputs"), py::arg("others"), py::arg("mesh") = py::none(),
      py::kw_only(), py::arg("dim") = 0, py::arg("mesh_dim") = py::none(), py::arg("bias") = py::none(),
      py::arg("reduce_op") = "sum", py::arg("chunks") = py::none(), py::arg("dtype") = py::none(),
      "This rank's shard along `dim`, as torch.chunk makes them, of the sum (or 'avg') over ranks of inputs @ others,\n"
      "itself summed over the pairs where there are several: a finished chunk is sent while the others are "
      "multiplied.\n\n"
      "    y = weft.matmul_reduce_scatter(attention, wo, mesh, dim=1, mesh_dim='tp')\n\n"
      "On plain tensors. Every rank adds its own `bias`. With `dtype` the sum of a rank is cast to it, sent and "
      "reduced so.\nDifferentiable.");
}

} // namespace weft::python
