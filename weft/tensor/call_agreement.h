#pragma once

#include "weft/tensor/prepared_call.h"

namespace weft {

/// Compares what this rank is about to do with what the other ranks of the mesh are: raises on all of them where they
/// differ, with the ranks and both calls, before any of them waits for a collective that the others do not make.
void check_agreement(const PreparedCall& call);

} // namespace weft
