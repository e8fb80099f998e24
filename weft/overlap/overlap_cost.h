#pragma once

#include "weft/overlap/rates.h"

namespace weft {

enum class OverlapKind : uint8_t { GatherMatmul, MatmulScatter };
/// What of the matmuls is cut by the collective: the rows of what is gathered or scattered, the dim that is summed over (of a
/// gather), or the columns of the product (of a scatter).
enum class OverlapCut : uint8_t { Rows, Inner, Columns };

/// A collective and the matmuls it could run beside, as the largest rank sees them: the same on every rank.
struct OverlapCase {
  OverlapKind kind;
  OverlapCut cut;
  int64_t members; // of the group
  int64_t rows;    // of the gathered tensor, or of the product before it is scattered
  int64_t inner; // the dim that is summed over, as this rank holds it; after the gather where that is what is gathered
  int64_t columns;       // of all matmuls together
  int64_t element_bytes; // of what is sent
  int64_t matmuls = 1;
};

struct OverlapChoice {
  bool fuse;
  int64_t chunks;         // per member: the best there are, also where it is not fused, for who fuses all the same
  double unfused_seconds; // as the model has them
  double fused_seconds;
  /// "4 chunks take 23.4ms instead of 41.9ms", or why not: for people.
  std::string reason;
};

/// Whether to fuse, and into how many chunks. A pure function: the same on every rank.
///
///   // 1024 x 1024 floats, gathered from two ranks over 1 Gbit/s and multiplied by as many at 100 Gflop/s.
///   choose_overlap({.kind = OverlapKind::GatherMatmul, .cut = OverlapCut::Rows, .members = 2, .rows = 1024,
///                   .inner = 1024, .columns = 1024, .element_bytes = 4}, link, compute).fuse // true
///
/// One after the other: a collective takes its latency and the bytes that a member receives over the link's rate; a matmul
/// takes the time of a call, its flops over one rate and the bytes of its operands over the other, so that the halves of a
/// matmul of few rows take longer than the whole. Fused: chunks go round a ring; a member's own piece is computed while the
/// first are under way, and what they cost the device itself is added to its compute. Fusing must gain something by a margin.
OverlapChoice choose_overlap(const OverlapCase& overlap, const Link& link, const Compute& compute);

/// Whether so little is sent or computed that fusing pays with no rates at all. Cheap enough for every call.
bool too_small_to_overlap(const OverlapCase& overlap);

} // namespace weft
