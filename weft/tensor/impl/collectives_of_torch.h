#pragma once

namespace weft {

/// Makes the collectives of torch.distributed raise for distributed tensors and name the functions to use instead.
/// Wrappers like DistributedDataParallel start with such a collective over a module's parameters.
void refuse_collectives_of_torch();

} // namespace weft
