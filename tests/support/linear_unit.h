#pragma once

#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"

namespace weft::testing {

/// A linear layer as a unit, over the first dim of a mesh.
struct LinearUnit {
  static inline const at::Tensor kWeight = whole_numbers({5, 3}) / 8;
  static inline const at::Tensor kBias = whole_numbers({5}) / 4;
  static inline const at::Tensor kInput = whole_numbers({4, 3}) / 4;

  std::vector<at::Tensor> parameters; // weight and bias: shards, or while they are gathered those
  std::shared_ptr<Unit> unit;

  explicit LinearUnit(const DeviceMesh& mesh, UnitOptions options = {}) {
    options.mesh_dim = mesh.name(0);
    for (auto& leaf : shard_parameters({kWeight, kBias}, mesh, options.mesh_dim)) {
      parameters.push_back(leaf.requires_grad_());
    }
    unit =
        std::make_shared<Unit>(parameters, options, [this](c10::ArrayRef<at::Tensor> put) { parameters = put.vec(); });
  }
  at::Tensor forward(const at::Tensor& x) {
    unit->enter(unit->is_global(x));
    auto y = at::linear(x, parameters[0], parameters[1]);
    unit->leave({y});
    return y;
  }
};

} // namespace weft::testing
