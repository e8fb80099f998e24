#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Raises for a tensor that has no strided memory of its own to shard: a sparse or nested tensor, and one that wraps
/// others (a subclass with __torch_dispatch__, a functional tensor, a tensor inside of a torch.func transform).
void check_has_dense_memory(const char* where, const at::Tensor& tensor);

/// Whether the tensor is a value inside of a transform (vmap, grad and jvp of torch.func, is_grads_batched of
/// torch.autograd.grad), which wraps the tensor with the memory.
bool is_inside_transform(const at::TensorBase& tensor);

/// Whether the tensor is on a device of the mesh's type, or has no data (meta).
bool is_on_device_of(const DeviceMesh& mesh, const at::Tensor& tensor);
/// The tensor on a device of the mesh's type. A tensor without data (meta) is returned as it is.
at::Tensor on_device_of(const DeviceMesh& mesh, const at::Tensor& tensor);

} // namespace weft
