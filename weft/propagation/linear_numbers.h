#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

namespace weft {

/// Whether an operator that is linear in its tensors stays so with a number: if the number is finite, and not zero in a
/// division. With others the terms of a sum give another result than their sum:
///
///   (3 + 0) * inf = inf   but   3 * inf + 0 * inf = nan
bool keeps_linear(const c10::FunctionSchema& schema, const at::Scalar& number);

/// As above, for all numbers among the arguments, also those in lists. Reads no tensors.
bool keep_linear(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments);

} // namespace weft
