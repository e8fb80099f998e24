#pragma once

#include "weft/overlap/rates.h"

#include <c10/core/ScalarType.h>

#include <optional>

namespace weft {

/// The rates that decisions on a mesh are made with, the same on all its ranks.
struct MeshRates {
  LinkModel links;
  Compute compute;

  /// Of a group that spans these mesh dims: the slowest link's.
  Link link(c10::IntArrayRef mesh_dims) const;
};

/// The rates given by give_rates, or by the environment in WEFT_LINK and WEFT_COMPUTE (rates.h has their form); those that
/// are not given are measured when first asked for, per mesh and dtype of the matmuls, and kept as long as the mesh's world.
///
///   const auto rates = rates_of(mesh, at::kFloat);
///   choose_overlap(overlap, rates.link({mesh.dim("tp")}), rates.compute);
///
/// The first call for a mesh and dtype communicates, so that all ranks have the same rates: every rank of the mesh must make
/// it, at the same place. One that does not is an error within the timeout, as is one that was given other rates. Where ranks
/// cannot talk (a mesh for planning, a fake world) and nothing is given, they are constants.
MeshRates rates_of(const DeviceMesh& mesh, c10::ScalarType dtype);

/// From now on in this process these are reckoned with; what is not given is the environment's again, or measured. Every rank
/// must be given the same. Decisions that were made before stay.
void give_rates(std::optional<Link> link, std::optional<Compute> compute);

} // namespace weft
