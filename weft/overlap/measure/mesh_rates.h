#pragma once

#include "weft/overlap/rates.h"

#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// The rates that decisions on a mesh use, equal on all its ranks: a link per mesh dim, and the compute of the slowest
/// device.
struct MeshRates {
  std::vector<std::string> mesh_dims; // names
  LinkModel links;
  Compute compute;

  /// The link of a group that spans these mesh dims: the slowest of them.
  Link link(c10::IntArrayRef of_dims) const;
  bool operator==(const MeshRates& other) const;

  /// "rates(dp=50us,125MB/s; tp=5us,1GB/s; compute=100Gflop/s,27GB/s,1us)", each number to four digits
  std::string to_string() const;
  static MeshRates parse(std::string_view text);
};

/// The rates that the ranks of a mesh agree on, for matmuls of this dtype: those given by give_rates, or by the
/// environment in WEFT_LINK and WEFT_COMPUTE (rates.h has their form), and what is not given is measured.
///
///   const auto rates = measure_rates(mesh, at::kBFloat16);   // before the first step, say
///   std::cout << rates.to_string(); // rates(tp=12us,3.1GB/s; compute=95Gflop/s,21GB/s,1.4us,9us,4GB/s)
///
/// A collective: every rank of the mesh must call it, at the same place of the program. It raises within the timeout if
/// a rank does not, or if a rank was given other rates. Once the ranks agree, their rates are kept as long as the
/// mesh's world, and a further call returns them without communication, unless other rates were given meanwhile. Then
/// the ranks agree anew, and decisions by the former rates are made again. If ranks cannot communicate (a mesh for
/// planning, a fake world), rates that are not given are constants.
///
/// A CommLog counts the messages under the operator "measure_rates"; the mesh's first rank logs the rates (at INFO).
MeshRates measure_rates(const DeviceMesh& mesh, c10::ScalarType dtype = c10::get_default_dtype_as_scalartype());

/// The rates that the ranks of the mesh have agreed on; none before that. Never communicates.
std::optional<MeshRates> agreed_rates(const DeviceMesh& mesh, c10::ScalarType dtype);

/// For a decision: the agreed rates; the first decision on a mesh measures them.
MeshRates rates_of(const DeviceMesh& mesh, c10::ScalarType dtype);

/// How often ranks of this process have agreed on rates. A decision that was made at another version is out of date.
uint64_t rates_version();

/// Gives the rates for meshes whose ranks have not agreed yet, and for other meshes from their next measure_rates on.
/// Rates that are not given come from the environment or are measured. Every rank must give the same; ranks as threads
/// share them.
void give_rates(std::optional<Link> link, std::optional<Compute> compute);

} // namespace weft
