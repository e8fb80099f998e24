#include "weft/comm/world/named_groups.h"
#include "weft/core/shard_math.h"
#include "weft/overlap/fused_scaled_matmul.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

// The operators that programs call by name. A `group` is the name of a group of ranks: in a program that Weft has
// sharded, the mesh dims that it spans ("tp", "dp,tp"), elsewhere the name of a process group of c10d. Shards are those
// of torch.chunk; `chunks` is the number of chunks of each shard in the pipeline.
TORCH_LIBRARY(weft, library) {
  // The shards of all members, concatenated along `dim`, times each of the others; then the gathered tensor, if
  // `gathered`. `size` is the global size along `dim`; without it all shards have the same size. Others are [inner,
  // columns]; the shard may have more than two dims. If `dim` is the shard's last, this is the sum over members of
  // shard @ its rows of the other.
  library.def(
      "all_gather_matmul(Tensor shard, Tensor[] others, Tensor?[] biases, int dim, SymInt? size, int chunks, "
      "bool gathered, str group) -> Tensor[]");
  // This member's shard along `dim` of the reduction over members of the sum of inputs[i] @ others[i] + bias. If there
  // is a `dtype`, the sum is cast to it before it is reduced.
  library.def(
      "matmul_reduce_scatter(Tensor[] inputs, Tensor[] others, Tensor? bias, str reduce_op, int dim, int chunks, "
      "str group, ScalarType? dtype=None) -> Tensor");
  // The same by _scaled_mm. The scale of the shard is one number, or one per row of the shard, which is gathered too,
  // or one per row of the gathered tensor.
  library.def(
      "all_gather_scaled_matmul(Tensor shard, Tensor shard_scale, Tensor[] others, Tensor[] other_scales, "
      "Tensor?[] biases, Tensor?[] result_scales, ScalarType?[] out_dtypes, bool[] use_fast_accum, int dim, SymInt? "
      "size, "
      "int chunks, bool gathered, str group) -> Tensor[]");
  library.def(
      "scaled_matmul_reduce_scatter(Tensor input, Tensor other, Tensor input_scale, Tensor other_scale, Tensor? bias, "
      "Tensor? result_scale, ScalarType? out_dtype, bool use_fast_accum, str reduce_op, int dim, int chunks, str "
      "group) "
      "-> Tensor");
}

namespace weft {

namespace {

using OptionalTensors = c10::List<std::optional<at::Tensor>>;

std::vector<at::Tensor> defined_or_not(const OptionalTensors& tensors) {
  std::vector<at::Tensor> result;
  for (const std::optional<at::Tensor> tensor : tensors) {
    result.push_back(tensor.value_or(at::Tensor()));
  }
  return result;
}

std::vector<at::Tensor> as_list(GatheredMatmul result) {
  if (result.gathered.defined()) {
    result.outputs.push_back(std::move(result.gathered));
  }
  return std::move(result.outputs);
}

/// The arguments of all_gather_scaled_matmul, read from the stack. Callers pass the list of dtypes in one of several
/// types, of which an unboxed kernel would accept only one.
struct ScaledGather {
  at::Tensor shard;
  at::Tensor shard_scale;
  std::vector<at::Tensor> others;
  std::vector<at::Tensor> other_scales;
  std::vector<c10::IValue> biases;
  std::vector<c10::IValue> result_scales;
  std::vector<c10::IValue> out_dtypes;
  std::vector<c10::IValue> use_fast_accum;
  int64_t dim;
  std::optional<c10::SymInt> size;
  int64_t chunks;
  bool gathered;
  std::string group;

  explicit ScaledGather(c10::ArrayRef<c10::IValue> arguments)
      : shard(arguments[0].toTensor()),
        shard_scale(arguments[1].toTensor()),
        others(arguments[2].toTensorVector()),
        other_scales(arguments[3].toTensorVector()),
        biases(arguments[4].toListRef().vec()),
        result_scales(arguments[5].toListRef().vec()),
        out_dtypes(arguments[6].toListRef().vec()),
        use_fast_accum(arguments[7].toList().vec()),
        dim(arguments[8].toInt()),
        size(arguments[9].isNone() ? std::nullopt : std::optional(arguments[9].toSymInt())),
        chunks(arguments[10].toInt()),
        gathered(arguments[11].toBool()),
        group(arguments[12].toStringRef()) {
    for (auto* optional : {&biases, &result_scales}) {
      if (optional->empty()) {
        optional->resize(others.size()); // no product has one
      }
    }
    check_length(other_scales.size(), "scales");
    check_length(biases.size(), "biases");
    check_length(result_scales.size(), "result scales");
    check_length(out_dtypes.size(), "output dtypes");
    check_length(use_fast_accum.size(), "values of use_fast_accum");
  }

  std::optional<at::ScalarType> out_dtype(size_t i) const {
    return out_dtypes[i].isNone() ? std::nullopt : std::optional(out_dtypes[i].toScalarType());
  }
  std::vector<ScaledOther> scaled_others() const {
    const auto tensor_or_none = [](const c10::IValue& value) {
      return value.isNone() ? at::Tensor() : value.toTensor();
    };
    std::vector<ScaledOther> result;
    for (size_t i = 0; i < others.size(); ++i) {
      result.push_back(
          {.values = others[i],
           .scale = other_scales[i],
           .bias = tensor_or_none(biases[i]),
           .result_scale = tensor_or_none(result_scales[i]),
           .out_dtype = out_dtype(i),
           .use_fast_accum = use_fast_accum[i].toBool()});
    }
    return result;
  }

 private:
  void check_length(size_t length, const char* what) const {
    TORCH_CHECK_VALUE(
        length == others.size(), "[all_gather_scaled_matmul] as many ", what, " as others are required, but got ",
        length, " for ", others.size(), ".");
  }
};

template <std::vector<at::Tensor> (*kernel)(const ScaledGather&)>
void boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto count = op.schema().arguments().size();
  auto results = kernel(ScaledGather(torch::jit::last(*stack, count)));
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, std::move(results));
}

std::vector<at::Tensor> all_gather_matmul_kernel(
    const at::Tensor& shard,
    at::TensorList others,
    const OptionalTensors& biases,
    int64_t dim,
    std::optional<int64_t> size,
    int64_t chunks,
    bool gathered,
    std::string group) {
  const auto members = named_group(group, shard.device().type());
  return as_list(all_gather_matmul(
      *members, shard, others, defined_or_not(biases),
      {.dim = dim, .size = size, .chunks = chunks, .keeps_gathered = gathered}));
}

at::Tensor matmul_reduce_scatter_kernel(
    at::TensorList inputs,
    at::TensorList others,
    const std::optional<at::Tensor>& bias,
    std::string reduce_op,
    int64_t dim,
    int64_t chunks,
    std::string group,
    std::optional<at::ScalarType> dtype) {
  TORCH_CHECK_VALUE(!inputs.empty(), "[matmul_reduce_scatter] at least one input is required, but got none.");
  const auto members = named_group(group, inputs[0].device().type());
  return matmul_reduce_scatter(
      *members, inputs, others, bias.value_or(at::Tensor()),
      {.dim = dim, .op = parse_reduce_op(reduce_op), .chunks = chunks, .dtype = dtype});
}

std::vector<at::Tensor> all_gather_scaled_matmul_kernel(const ScaledGather& call) {
  const auto members = named_group(call.group, call.shard.device().type());
  const auto size = call.size ? std::optional(call.size->guard_int(__FILE__, __LINE__)) : std::nullopt;
  return as_list(all_gather_scaled_matmul(
      *members, call.shard, call.shard_scale, call.scaled_others(),
      {.dim = call.dim, .size = size, .chunks = call.chunks, .keeps_gathered = call.gathered}));
}

at::Tensor scaled_matmul_reduce_scatter_kernel(
    const at::Tensor& input,
    const at::Tensor& other,
    const at::Tensor& input_scale,
    const at::Tensor& other_scale,
    const std::optional<at::Tensor>& bias,
    const std::optional<at::Tensor>& result_scale,
    std::optional<at::ScalarType> out_dtype,
    bool use_fast_accum,
    std::string reduce_op,
    int64_t dim,
    int64_t chunks,
    std::string group) {
  const auto members = named_group(group, input.device().type());
  const ScaledOther right{
      .values = other,
      .scale = other_scale,
      .bias = bias.value_or(at::Tensor()),
      .result_scale = result_scale.value_or(at::Tensor()),
      .out_dtype = out_dtype,
      .use_fast_accum = use_fast_accum};
  return scaled_matmul_reduce_scatter(
      *members, input, input_scale, right, {.dim = dim, .op = parse_reduce_op(reduce_op), .chunks = chunks});
}

// The meta kernels: the shapes of the results.

std::vector<at::Tensor> gathered_shapes(
    const char* where,
    const at::Tensor& shard,
    at::TensorList others,
    const std::vector<at::ScalarType>& dtypes,
    int64_t dim,
    std::optional<c10::SymInt> size,
    bool gathered,
    const std::string& group) {
  const auto last = shard.dim() - 1;
  TORCH_CHECK_VALUE(
      last >= 1 && dim >= 0 && dim <= last, "[", where,
      "] a shard of at least two dims and one of them are required, but got ", shard.sym_sizes(), " and dim ", dim,
      ".");
  auto sizes = shard.sym_sizes().vec();
  sizes[dim] = size ? *size : sizes[dim] * named_place(group).size;
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < others.size(); ++i) {
    auto product = sizes;
    product[last] = others[i].sym_size(1);
    results.push_back(at::empty_symint(product, shard.options().dtype(dtypes[i])));
  }
  if (gathered) {
    results.push_back(at::empty_symint(sizes, shard.options()));
  }
  return results;
}

at::Tensor scattered_shape(
    const char* where,
    const at::Tensor& input,
    const at::Tensor& other,
    at::ScalarType dtype,
    int64_t dim,
    const std::string& group) {
  TORCH_CHECK_VALUE(
      input.dim() >= 2 && dim >= 0 && dim < input.dim(), "[", where,
      "] an input of at least two dims and one of them are required, but got ", input.sym_sizes(), " and dim ", dim,
      ".");
  auto sizes = input.sym_sizes().vec();
  sizes.back() = other.sym_size(1);
  const auto place = named_place(group);
  if (const auto known = sizes[dim].maybe_as_int()) {
    sizes[dim] = chunk(*known, place.size, place.rank).length;
  } else {
    // The length of all shards but the last few.
    sizes[dim] = (sizes[dim] + (place.size - 1)) / place.size;
  }
  return at::empty_symint(sizes, input.options().dtype(dtype));
}

std::vector<at::Tensor> all_gather_matmul_meta(
    const at::Tensor& shard,
    at::TensorList others,
    const OptionalTensors& /*biases*/,
    int64_t dim,
    std::optional<c10::SymInt> size,
    int64_t /*chunks*/,
    bool gathered,
    std::string group) {
  const std::vector<at::ScalarType> dtypes(others.size(), shard.scalar_type());
  return gathered_shapes("all_gather_matmul", shard, others, dtypes, dim, std::move(size), gathered, group);
}

at::Tensor matmul_reduce_scatter_meta(
    at::TensorList inputs,
    at::TensorList others,
    const std::optional<at::Tensor>& /*bias*/,
    std::string /*reduce_op*/,
    int64_t dim,
    int64_t /*chunks*/,
    std::string group,
    std::optional<at::ScalarType> dtype) {
  TORCH_CHECK_VALUE(
      !inputs.empty() && inputs.size() == others.size(),
      "[matmul_reduce_scatter] as many others as inputs are required, at least one, but got ", others.size(), " for ",
      inputs.size(), ".");
  return scattered_shape(
      "matmul_reduce_scatter", inputs[0], others[0], dtype.value_or(inputs[0].scalar_type()), dim, group);
}

std::vector<at::Tensor> all_gather_scaled_matmul_meta(const ScaledGather& call) {
  std::vector<at::ScalarType> dtypes;
  for (size_t i = 0; i < call.others.size(); ++i) {
    dtypes.push_back(call.out_dtype(i).value_or(call.shard.scalar_type()));
  }
  return gathered_shapes(
      "all_gather_scaled_matmul", call.shard, call.others, dtypes, call.dim, call.size, call.gathered, call.group);
}

at::Tensor scaled_matmul_reduce_scatter_meta(
    const at::Tensor& input,
    const at::Tensor& other,
    const at::Tensor& /*input_scale*/,
    const at::Tensor& /*other_scale*/,
    const std::optional<at::Tensor>& /*bias*/,
    const std::optional<at::Tensor>& /*result_scale*/,
    std::optional<at::ScalarType> out_dtype,
    bool /*use_fast_accum*/,
    std::string /*reduce_op*/,
    int64_t dim,
    int64_t /*chunks*/,
    std::string group) {
  const auto dtype = out_dtype.value_or(input.scalar_type());
  return scattered_shape("scaled_matmul_reduce_scatter", input, other, dtype, dim, group);
}

void register_kernels(torch::Library& library) {
  library.impl("all_gather_matmul", all_gather_matmul_kernel);
  library.impl("matmul_reduce_scatter", matmul_reduce_scatter_kernel);
  library.impl(
      "all_gather_scaled_matmul", torch::CppFunction::makeFromBoxedFunction<boxed<all_gather_scaled_matmul_kernel>>());
  library.impl("scaled_matmul_reduce_scatter", scaled_matmul_reduce_scatter_kernel);
}

} // namespace

} // namespace weft

TORCH_LIBRARY_IMPL(weft, CPU, library) {
  weft::register_kernels(library);
}

TORCH_LIBRARY_IMPL(weft, CUDA, library) {
  weft::register_kernels(library);
}

TORCH_LIBRARY_IMPL(weft, Meta, library) {
  library.impl("all_gather_matmul", weft::all_gather_matmul_meta);
  library.impl("matmul_reduce_scatter", weft::matmul_reduce_scatter_meta);
  library.impl(
      "all_gather_scaled_matmul",
      torch::CppFunction::makeFromBoxedFunction<weft::boxed<weft::all_gather_scaled_matmul_meta>>());
  library.impl("scaled_matmul_reduce_scatter", weft::scaled_matmul_reduce_scatter_meta);
}
