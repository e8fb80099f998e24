#pragma once

#include "weft/tensor/impl/prepared_call.h"

#include <string>

namespace weft {

/// Compares what this rank is about to do with what the other ranks of the mesh are: raises on all of them where they
/// differ, with the ranks and both calls, before any of them waits for a collective that the others do not make.
void check_agreement(const PreparedCall& call);
/// The same of anything that all ranks of the mesh are about to do, as text.
void check_agreement(const DeviceMesh& mesh, const std::string& text);

} // namespace weft
