#pragma once

#include "weft/styles/parallel_plan.h"
#include "weft/tensor/boundary/distribute_tensor.h"

#include <torch/nn/module.h>

namespace weft::nn {

struct ParallelizeOptions {
  /// The mesh dim that the plan is for: by default "tp", or the only one. Along the others parameters are replicated.
  std::optional<std::string> mesh_dim = std::nullopt;
  /// Whose values count: see DistributeOptions. Without one nothing is communicated.
  std::optional<int64_t> src_data_rank = 0;
};

/// Makes a model parallel as a plan says: its parameters distributed, its activations moved where the plan wants them.
///
///   parallelize_module(*model, mesh, ParallelPlan::load("plan.json"));
///
/// A module that is declared Parallel moves its inputs and outputs. Another one may have the styles colwise, rowwise and
/// replicate all the same: what it gives out then follows from its weights, and is moved by whatever uses it next.
void parallelize_module(
    torch::nn::Module& module,
    const DeviceMesh& mesh,
    const ParallelPlan& plan,
    const ParallelizeOptions& options = {});

} // namespace weft::nn
