#pragma once

#include "weft/styles/parallel_plan.h"
#include "weft/tensor/boundary/distribute_tensor.h"

#include <torch/nn/module.h>

namespace weft::nn {

struct ParallelizeOptions {
  /// The mesh dim that the parallel plan is for: by default "tp", or the only one. Along other mesh dims parameters are
  /// replicated.
  std::optional<std::string> mesh_dim = std::nullopt;
  /// The rank whose values are used, see DistributeOptions. Without one, nothing is communicated.
  std::optional<int64_t> src_data_rank = 0;
  /// Whether plain tensors among distributed ones (masks, positions, caches) count as replicated in the forward of the
  /// modules that are declared Parallel. Otherwise they are an error outside of a ReplicatePlainScope. By default they
  /// do, unless the parallel plan makes modules return plain shards.
  std::optional<bool> replicate_plain = std::nullopt;
};

/// Parallelizes a model by a parallel plan: distributes its parameters and redistributes its activations.
///
///   parallelize_module(*model, mesh, ParallelPlan::load("plan.json"));
///
/// A module that is declared Parallel redistributes its inputs and outputs. Another module may still have the styles
/// colwise, rowwise and replicate: the layout of its output then follows from its weights, and the operator that uses
/// the output redistributes it.
///
/// Modules that the plan fully shards are so after that, the innermost first (see fully_shard). A plan of such entries alone leaves
/// everything else as it is, and needs no mesh dim of its own.
void parallelize_module(
    torch::nn::Module& module,
    const DeviceMesh& mesh,
    const ParallelPlan& plan,
    const ParallelizeOptions& options = {});

} // namespace weft::nn
