#pragma once

#include "weft/fully_sharded/unit.h"

#include <torch/nn/module.h>

#include <set>

namespace weft::nn {

struct FullyShardOptions {
  /// The mesh dim over which parameters are sharded: by default the only one, or the last of two.
  std::optional<std::string> mesh_dim = std::nullopt;
  /// A second one, over which the shards are replicated: by default the first of two, if none is named.
  std::optional<std::string> replicate_dim = std::nullopt;
  /// Whether gathered parameters are freed after forward. By default they are, but for the outermost unit.
  std::optional<bool> reshard_after_forward = std::nullopt;
  /// Gathered parameters are resharded to so many neighbours after forward, for a backward gather among fewer ranks.
  std::optional<int64_t> reshard_to = std::nullopt;
  /// The dtypes in which parameters are gathered and gradients reduced.
  std::optional<at::ScalarType> param_dtype = std::nullopt;
  std::optional<at::ScalarType> reduce_dtype = std::nullopt;
  /// Keeps the shards, with gradients and the optimizer's state, on the CPU, on a mesh of it.
  bool offload = false;
  /// Stay as they are.
  std::vector<at::Tensor> ignored_params = {};
};

/// Divides the parameters of a module over a mesh dim, with their gradients and the optimizer's state.
///
///   for (const auto& layer : *model->layers()) {
///     fully_shard(*layer, mesh);
///   }
///   fully_shard(*model, mesh);                             // what is left: embedding, norm, head
///   torch::optim::AdamW optimizer(model->parameters());    // of the shards
///
/// Each call makes a unit of the parameters that belong to no unit inside of it. They are gathered when the module's forward
/// begins and again for its backward, so that the module must be declared Parallel where it is a member (or be of a class
/// Parallel<...>::ContainedType); modules inside of it need not. docs/fully_sharded.md is the guide.
///
/// The unit has what there is to set: `unit->set_requires_gradient_sync(false)`.
std::shared_ptr<Unit> fully_shard(
    torch::nn::Module& module,
    const DeviceMesh& mesh,
    const FullyShardOptions& options = {});

/// The units of a module and of those inside of it, the outermost first.
std::vector<std::shared_ptr<Unit>> units_of(torch::nn::Module& module);

} // namespace weft::nn
