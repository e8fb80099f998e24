#pragma once

namespace weft {

/// Makes the collectives of torch.distributed raise for distributed tensors and say what to use. DistributedDataParallel
/// and others begin with one over a module's parameters.
void refuse_collectives_of_torch();

} // namespace weft
