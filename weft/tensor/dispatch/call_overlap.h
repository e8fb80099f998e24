#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/overlap/overlap_cost.h"

namespace weft {

/// Whether one call on distributed tensors overlaps its collective with its matmul. The mode of the thread says so (scopes.h);
/// where that is Auto, the sizes say no if they are small, and the rates of the mesh decide otherwise. That decision is kept
/// with the prepared call, so that a repeated call reads it without a lock, and is made again if the ranks of a mesh have
/// agreed on other rates since.
class CallOverlap {
 public:
  using Choose = OverlapChoice(const OverlapCase& overlap, const Link& link, const Compute& compute);

  /// `spec` is of the operand on whose mesh and in whose dtype the call communicates, along `mesh_dim`.
  CallOverlap(SpecPtr spec, int64_t mesh_dim, const OverlapCase& overlap, Choose* choose = choose_overlap);

  /// Every rank of the mesh must ask alike: the first decision on a mesh measures its rates.
  bool is_on();
  /// Per rank, of a call that is_on.
  int64_t chunks() const;
  int64_t mesh_dim() const {
    return mesh_dim_;
  }
  /// Why it is on, for people.
  std::string reason() const;

 private:
  void decide();

  SpecPtr spec_;
  int64_t mesh_dim_;
  OverlapCase overlap_;
  Choose* choose_;
  bool never_pays_;       // for want of bytes or of peers: nothing is measured
  int64_t forced_chunks_; // without measured rates: the same whatever was measured before
  std::optional<OverlapChoice> choice_;
  uint64_t version_ = 0; // of the rates that it was made by
};

} // namespace weft
