#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace weft {

/// Makes the collectives of torch.distributed raise for distributed tensors and name the functions to use instead.
/// Wrappers like DistributedDataParallel start with such a collective over a module's parameters.
void refuse_collectives_of_torch();

/// The kernel of such an operator: always raises.
void refuse_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace weft
