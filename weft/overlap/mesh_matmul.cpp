#include "weft/overlap/mesh_matmul.h"

#include "weft/comm/world/named_groups.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

namespace weft {

namespace {

using torch::jit::Stack;

/// Calls an operator through the dispatcher, so that autograd records it.
c10::IValue call(const char* name, const DeviceMesh& mesh, Stack arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  const NamedGroupScope scope(groups_of(mesh));
  op.callBoxed(&arguments);
  return std::move(arguments[0]);
}

c10::IValue optional(const at::Tensor& tensor) {
  return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
}

} // namespace

GatheredMatmul all_gather_matmul(
    const at::Tensor& shard,
    at::TensorList others,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    const GatherMatmulOptions& options,
    Biases biases) {
  c10::List<std::optional<at::Tensor>> optional_biases;
  for (const auto& bias : biases) {
    optional_biases.push_back(bias.defined() ? std::optional(bias) : std::nullopt);
  }
  const auto size = options.size ? c10::IValue(*options.size) : c10::IValue();
  GatheredMatmul result;
  result.outputs = call(
                       "weft::all_gather_matmul", mesh,
                       {shard, others.vec(), optional_biases, c10::maybe_wrap_dim(options.dim, shard.dim()), size,
                        options.chunks, options.keeps_gathered, mesh.dims_text(mesh_dims)})
                       .toTensorVector();
  if (options.keeps_gathered) {
    result.gathered = std::move(result.outputs.back());
    result.outputs.pop_back();
  }
  return result;
}

at::Tensor matmul_reduce_scatter(
    at::TensorList inputs,
    at::TensorList others,
    const DeviceMesh& mesh,
    c10::IntArrayRef mesh_dims,
    const MatmulScatterOptions& options,
    const at::Tensor& bias) {
  return call(
             "weft::matmul_reduce_scatter", mesh,
             {inputs.vec(), others.vec(), optional(bias), std::string(to_string(options.op)),
              inputs.empty() ? options.dim : c10::maybe_wrap_dim(options.dim, inputs[0].dim()), options.chunks,
              mesh.dims_text(mesh_dims), options.dtype ? c10::IValue(*options.dtype) : c10::IValue()})
      .toTensor();
}

int64_t usual_chunks(int64_t shard_bytes) {
  constexpr int64_t kChunkBytes = 256 << 10;
  constexpr int64_t kMostChunks = 8;
  return std::clamp<int64_t>(shard_bytes / kChunkBytes, 1, kMostChunks);
}

} // namespace weft
