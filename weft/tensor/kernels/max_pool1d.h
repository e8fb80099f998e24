#pragma once

#include <torch/library.h>

namespace weft {

/// Registers max_pool1d by its form with indices, which is made of other operators. Where no gradient is wanted, torch's own
/// code on the CPU reads the memory of its input directly, and a distributed tensor has none.
void register_max_pool1d(torch::Library& library);

} // namespace weft
