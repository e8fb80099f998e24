#pragma once

#include "weft/tensor/dispatch/dtensor_kernel.h"

#include <torch/library.h>

namespace weft {

/// The function that the dispatcher calls for an operator: a direct kernel if its signature is a common one, else the
/// boxed kernel. `kernel` must outlive it.
torch::CppFunction function_of(const DTensorKernel& kernel);

/// Whether function_of returns a direct kernel.
bool has_direct_signature(const DTensorKernel& kernel);

} // namespace weft
