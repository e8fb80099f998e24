#pragma once

#include "weft/tensor/dispatch/dtensor_kernel.h"

#include <torch/library.h>

namespace weft {

/// What the dispatcher calls for an operator: a direct kernel where its signature is a common one, else the boxed one.
/// The kernel must outlive it.
torch::CppFunction function_of(const DTensorKernel& kernel);

/// Whether it is a direct one.
bool has_direct_signature(const DTensorKernel& kernel);

} // namespace weft
