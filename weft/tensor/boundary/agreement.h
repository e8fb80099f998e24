#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Raises unless the local tensor of a rank has the expected shape.
void check_local_shape(
    const char* where,
    c10::IntArrayRef shape,
    c10::IntArrayRef expected,
    int64_t rank,
    const TensorSpec& spec);

/// The checks below compare what the ranks of a mesh hold. Every rank of the mesh must call them; if they raise, they
/// raise the same error on all ranks. On a meta device they do nothing.

/// Raises unless all ranks have local tensors of one dtype and of matching shapes: if the global shape is given, it
/// must be the same on all ranks and each local tensor must have the local shape that follows from it; otherwise all
/// local tensors must have one shape.
void check_locals_agree(const char* where, const at::Tensor& local, const TensorSpec& spec, bool shape_is_given);

/// Raises unless all ranks give global tensors of one dtype and shape.
void check_globals_agree(const char* where, const at::Tensor& global, const DeviceMesh& mesh);

enum class ReplicaClaim : uint8_t { Values, Gradients };

/// Raises if ranks hold different bytes along a mesh dim whose placement is R. For gradients the error names the
/// grad_placements to give instead.
void check_replicas_agree(const char* where, const at::Tensor& local, const TensorSpec& spec, ReplicaClaim claim);

} // namespace weft
