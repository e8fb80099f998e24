#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/rules/op_call.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// Whether an operand is cut or partial on some mesh dim, so that no rank has all of it.
bool any_is_in_parts(c10::ArrayRef<SpecPtr> operands);

/// Whether a mesh dim cuts one of the dims that a call reduces (its argument "dim", all where there is none).
bool cuts_reduced_dims(const OpCall& call, c10::ArrayRef<SpecPtr> operands);

/// As above, or the operand is partial.
bool cuts_reduced_dims_or_is_partial(const OpCall& call, c10::ArrayRef<SpecPtr> operands);

/// The dims of a reduction counted from the front; all where none is named.
std::vector<int64_t> wrapped_dims(at::OptionalIntArrayRef dims, int64_t rank);

/// The dtype in which parts are added up: narrow floats could overflow before the sum is divided, or its root taken.
at::ScalarType accumulation_dtype(at::ScalarType dtype);

/// How many elements become one.
int64_t reduced_count(const at::Tensor& tensor, c10::IntArrayRef dims);

} // namespace weft
