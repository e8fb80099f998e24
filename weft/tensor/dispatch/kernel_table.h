#pragma once

#include "weft/tensor/dispatch/dtensor_kernel.h"

#include <functional>
#include <string>

namespace weft {

/// Makes the kernel of an operator. Kernels live as long as the process, because the dispatcher uses them.
const DTensorKernel& make_kernel(const c10::OperatorHandle& op);

/// Calls a function with the full name ("aten::add.Tensor") and the kernel of every operator that has one. An operator
/// that was defined anew has one kernel per definition.
void for_each_kernel(const std::function<void(const std::string& name, const DTensorKernel& kernel)>& visit);

} // namespace weft
