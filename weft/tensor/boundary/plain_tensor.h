#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Raises for a tensor without memory that could be sharded along its dims: one of another layout (sparse, nested), and one
/// that wraps others (a subclass with __torch_dispatch__, a functional tensor, one of torch.func's).
void check_has_dense_memory(const char* where, const at::Tensor& tensor);

/// The tensor on a device of the mesh's type; one without data stays as it is.
at::Tensor on_device_of(const DeviceMesh& mesh, const at::Tensor& tensor);

} // namespace weft
