#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/rules/op_call.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Whether an operand is sharded or partial on some mesh dim, so that no rank has the full tensor.
bool any_is_sharded_or_partial(c10::ArrayRef<SpecPtr> operands);

/// Whether a mesh dim shards one of the dims that a call reduces (its argument "dim"; all dims if it has none).
bool shards_reduced_dims(const OpCall& call, c10::ArrayRef<SpecPtr> operands);

/// As above, or the operand is partial.
bool shards_reduced_dims_or_is_partial(const OpCall& call, c10::ArrayRef<SpecPtr> operands);

/// The dims of a reduction with negative ones counted from the end; all dims if none is given.
std::vector<int64_t> wrapped_dims(at::OptionalIntArrayRef dims, int64_t ndim);

/// The dtype in which local sums are added up: 16-bit floats could overflow before the sum is divided or its root
/// taken.
at::ScalarType accumulation_dtype(at::ScalarType dtype);

/// Sums over dims of `input` with the terms reduced on the mesh dims that shard it. On other mesh dims they stay partial. Sums that
/// are used several times would otherwise be reduced by each use.
at::Tensor reduced_where_sharded(const char* op, const at::Tensor& sums, const at::Tensor& input);

/// The number of elements that are reduced to one.
int64_t reduced_count(const at::Tensor& tensor, c10::IntArrayRef dims);

} // namespace weft
