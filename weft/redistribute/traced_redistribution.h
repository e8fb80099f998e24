#pragma once

#include "weft/redistribute/plan.h"

namespace weft {

/// Runs a redistribution plan on a traced local tensor: as functional collectives (`_c10d_functional`), which compilers
/// know, and operators that slice, pad and join. The number of collectives is that of a run by messages. Shards of
/// different sizes are padded, except in an all-to-all, which states its sizes.
at::Tensor run_traced(const Plan& plan, const at::Tensor& local);

} // namespace weft
