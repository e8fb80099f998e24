#pragma once

#include "weft/core/device_mesh.h"

namespace weft {

/// Whether both layouts give every rank of the mesh the same local tensor. They may differ on mesh dims of one rank,
/// where S, R and P all stand for the global tensor.
///
///   have_same_locals(mesh(dp=2,tp=1), {S(0), P(sum)}, {S(0), R})   // true
bool have_same_locals(const DeviceMesh& mesh, const Layout& a, const Layout& b);

} // namespace weft
