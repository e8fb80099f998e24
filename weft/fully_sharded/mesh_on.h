#pragma once

#include "weft/core/device_mesh.h"

namespace weft {

/// The same ranks with the devices of another type.
///
///   mesh_on(mesh, c10::kCPU)   // of mesh(dp=2; cuda): mesh(dp=2)
inline DeviceMesh mesh_on(const DeviceMesh& mesh, c10::DeviceType type) {
  return {mesh.world(), type, mesh.shape(), mesh.ranks(), mesh.names()};
}

} // namespace weft
