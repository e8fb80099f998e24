#pragma once

#include "weft/redistribute/cost.h"

#include <c10/core/ScalarType.h>

#include <string>

namespace weft {

/// What a device computes with one matmul: the rate of a large one, of memory, and the time of one that does nothing.
struct Compute {
  double flops_per_second;
  double bytes_per_second;
  double call_seconds;
};

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
  int64_t chunks;         // per member; 1 where it is not fused
  double unfused_seconds; // as the model has them
  double fused_seconds;
  /// "the matmul takes 3 us, less than the latency of a chunk": why, for people.
  std::string reason;
};

/// Whether to fuse, and into how many chunks. A pure function: the same on every rank.
OverlapChoice choose_overlap(const OverlapCase& overlap, const Link& link, const Compute& compute);

} // namespace weft
