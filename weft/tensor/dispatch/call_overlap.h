#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/overlap/overlap_cost.h"

namespace weft {

/// Decides whether one call on distributed tensors overlaps its collective with its matmul. The mode of the thread
/// decides (scopes.h). In mode Auto small sizes never overlap, and for others the rates of the mesh decide. The
/// decision is kept with the prepared call, so that a repeated call reads it without a lock. It is made again if the
/// ranks of a mesh have agreed on other rates since.
class CallOverlap {
 public:
  using Choose = OverlapChoice(const OverlapCase& overlap, const Link& link, const Compute& compute);

  /// `spec` is that of the operand that is communicated along `mesh_dim`.
  CallOverlap(SpecPtr spec, int64_t mesh_dim, const OverlapCase& overlap, Choose* choose = choose_overlap);

  /// Every rank of the mesh must call it, because the first decision on a mesh measures its rates.
  bool is_on();
  /// The number of chunks per rank. Requires is_on().
  int64_t chunks() const;
  int64_t mesh_dim() const {
    return mesh_dim_;
  }
  /// Why it is on, as text for users.
  std::string reason() const;

 private:
  void decide();

  SpecPtr spec_;
  int64_t mesh_dim_;
  OverlapCase overlap_;
  Choose* choose_;
  bool never_pays_;       // too few bytes, or a fake world: nothing is measured
  int64_t forced_chunks_; // in mode Force, from assumed rates: does not depend on measurements
  std::optional<OverlapChoice> choice_;
  uint64_t version_ = 0; // of the rates that the choice is based on
};

} // namespace weft
