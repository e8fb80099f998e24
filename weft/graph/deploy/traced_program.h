#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/graph/deploy/manifest.h"

namespace weft::graph {

/// Writes the program that a rank has traced on its local tensors (torch.export of a parallelised module) into a folder,
/// as write_sharded writes the programs of ranks. In it a group has the name that it has in torch; `mesh_dims` says which
/// mesh dims each of them spans.
///
///   write_traced(traced, folder, /*rank=*/0, {{"3", "tp"}, {"5", "dp,tp"}});
Manifest::RankFile write_traced(
    const std::string& traced,
    const std::string& folder,
    int64_t rank,
    const std::map<std::string, std::string>& mesh_dims);

/// How such programs are called with global tensors. `of_rank` is one of the programs written above, whose user inputs
/// and outputs have the given specs; those without a spec are the same on every rank.
Manifest manifest_of_traced(
    const std::string& of_rank,
    const DeviceMesh& mesh,
    const std::vector<SpecPtr>& inputs,
    const std::vector<SpecPtr>& outputs);

} // namespace weft::graph
