#pragma once

#include "weft/nn/parallel.h"
#include "weft/tensor/boundary/distribute_tensor.h"

#include <torch/nn/module.h>

namespace weft::nn {

/// Called for every submodule with its path; replaces parameters by distributed ones with replace_parameter.
using PartitionFn = std::function<void(const std::string& path, torch::nn::Module& module, const DeviceMesh& mesh)>;
/// As BoundaryFn, with the mesh.
using MeshFn = std::function<std::vector<at::Tensor>(std::vector<at::Tensor> values, const DeviceMesh& mesh)>;

/// Makes the parameters and buffers of a module distributed: those that `partition_fn` leaves plain are replicated.
///
///   distribute_module(*model, mesh, [](const auto& path, auto& module, const auto& mesh) {
///     if (auto* linear = module.template as<torch::nn::Linear>()) {
///       replace_parameter(*linear, "weight", distribute_tensor(linear->weight.detach(), mesh, {Shard(0)}));
///     }
///   });
///
/// Most layouts of activations follow from those of the weights. For others, `input_fn` is called before the module's
/// forward and `output_fn` after it; the module must then be declared Parallel. Tied parameters stay tied.
/// `replicate_plain` is described in ParallelizeOptions.
void distribute_module(
    torch::nn::Module& module,
    const DeviceMesh& mesh,
    const PartitionFn& partition_fn = {},
    const MeshFn& input_fn = {},
    const MeshFn& output_fn = {},
    const DistributeOptions& options = {},
    bool replicate_plain = true);

} // namespace weft::nn
