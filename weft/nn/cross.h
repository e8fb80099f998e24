#pragma once

#include "weft/core/device_mesh.h"
#include "weft/styles/style.h"

#include <ATen/core/Tensor.h>

namespace weft::nn {

/// Moves tensors over the boundaries of modules, along one mesh dim; along the others they stay as they are.
class Crosser {
 public:
  /// `where` leads errors: the plan's entry and the module.
  Crosser(std::string where, DeviceMesh mesh, int64_t mesh_dim)
      : where_(std::move(where)), mesh_(std::move(mesh)), mesh_dim_(mesh_dim) {}

  /// An input. One that is replicated where it enters is so for its gradient too, which is then reduced here, once for all
  /// modules that this very tensor enters. `crossing` is the same object in every call of a module, by which a module that is
  /// called anew is told from another one.
  at::Tensor enter(const at::Tensor& tensor, const Crossing& crossing, bool as_local) const;
  /// An output.
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
