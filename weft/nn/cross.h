#pragma once

#include "weft/core/device_mesh.h"
#include "weft/styles/style.h"

#include <ATen/core/Tensor.h>

namespace weft::nn {

/// Redistributes tensors at the boundaries of modules, along one mesh dim; the placements on other mesh dims stay.
class Crosser {
 public:
  /// `where` begins errors: the plan entry and the module.
  Crosser(std::string where, DeviceMesh mesh, int64_t mesh_dim)
      : where_(std::move(where)), mesh_(std::move(mesh)), mesh_dim_(mesh_dim) {}

  /// Crosses an input. If the input is replicated after the crossing, its gradient is replicated as well: it is reduced
  /// here, once for all modules that this very tensor enters. `crossing` is the same object in every call of a module,
  /// which distinguishes a second call of a module from the call of another module.
  at::Tensor enter(const at::Tensor& tensor, const Crossing& crossing, bool as_local) const;
  /// Crosses an output.
  at::Tensor leave(const at::Tensor& tensor, const Crossing& crossing, bool as_local) const;

 private:
  template <class Move>
  at::Tensor crossed(const at::Tensor& tensor, const Crossing& crossing, bool as_local, const Move& move) const;
  at::Tensor distributed(const at::Tensor& tensor, const Crossing& crossing) const;
  Layout target(const at::Tensor& tensor, Placement placement) const;

  std::string where_;
  DeviceMesh mesh_;
  int64_t mesh_dim_;
};

} // namespace weft::nn
