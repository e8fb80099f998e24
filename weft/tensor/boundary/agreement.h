#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Raises unless the shape of a rank's local tensor is the one that is expected.
void check_part(
    const char* where,
    c10::IntArrayRef shape,
    c10::IntArrayRef expected,
    int64_t rank,
    const TensorSpec& spec);

/// Checks that compare what the ranks of a mesh hold. Every rank of the mesh must call them; where they raise, they
/// raise on all of them and say the same. Without data (a meta device) there is nothing to compare.

/// Raises unless all ranks have local tensors of one dtype and, where the global shape was not given but taken from
/// them, of one shape; else unless they were given one global shape, of which each has its part.
void check_parts_agree(const char* where, const at::Tensor& local, const TensorSpec& spec, bool shape_is_given);

/// Raises unless all ranks give whole tensors of one dtype and shape.
void check_wholes_agree(const char* where, const at::Tensor& whole, const DeviceMesh& mesh);

enum class ReplicaClaim : uint8_t { Values, Gradients };

/// Raises where ranks hold different bytes along a mesh dim on which the spec says R. Of gradients it says which
/// grad_placements to give instead.
void check_replicas_agree(const char* where, const at::Tensor& local, const TensorSpec& spec, ReplicaClaim claim);

} // namespace weft
