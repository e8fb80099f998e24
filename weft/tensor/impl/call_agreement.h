#pragma once

#include "weft/tensor/impl/prepared_call.h"

#include <string>

namespace weft {

/// Compares the call that this rank is about to run with those of the other ranks of the mesh. Where they differ it
/// raises on all ranks, and names two ranks and their calls, before any rank waits for a collective that the others do
/// not start.
void check_agreement(const PreparedCall& call);
/// The same check for anything else that all ranks of the mesh are about to do, described by `text`.
void check_agreement(const DeviceMesh& mesh, const std::string& text);
/// Raises on all ranks of the mesh if they were given different seeds by torch.manual_seed.
void check_seeds(const DeviceMesh& mesh, uint64_t seed);
/// Raises on all ranks of the mesh if they hold different values of a plain tensor that counts as replicated. `what`
/// names it in the error: "argument 'other' of aten::add".
void check_replicas(const DeviceMesh& mesh, const at::Tensor& plain, const std::string& what);

} // namespace weft
