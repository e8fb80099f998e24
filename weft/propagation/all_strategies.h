#pragma once

#include "weft/propagation/choose.h"

namespace weft {

/// Every strategy that a rule allows for operands of these sizes and this mesh, whatever their layouts; the one that
/// replicates everything is not among them.
std::vector<Strategy> all_strategies(const Rule& rule, c10::ArrayRef<SpecPtr> operands);

} // namespace weft
