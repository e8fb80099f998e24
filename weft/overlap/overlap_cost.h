#pragma once

#include "weft/overlap/rates.h"

namespace weft {

enum class OverlapKind : uint8_t { GatherMatmul, MatmulScatter };
/// Which dim of the matmuls the collective divides: the rows of the gathered or scattered tensor, the dim that is
/// summed over (of a gather), or the columns of the product (of a scatter).
enum class OverlapDim : uint8_t { Rows, Inner, Columns };

/// A collective and the matmuls with which it could overlap, with the sizes of the largest rank, so that it is the same
/// on every rank.
struct OverlapCase {
  OverlapKind kind;
  OverlapDim dim;
  int64_t members;       // of the group
  int64_t rows;          // of the gathered tensor, or of the product before it is scattered
  int64_t inner;         // the local size of the dim that is summed over; its global size if it is the gathered dim
  int64_t columns;       // of all matmuls together
  int64_t element_bytes; // of what is sent
  int64_t matmuls = 1;
};

struct OverlapChoice {
  bool fuse;
  int64_t chunks;         // per member: the best number, also if `fuse` is false, for a caller that is forced to fuse
  double unfused_seconds; // estimated by the model
  double fused_seconds;
  /// "4 chunks take 23.4ms instead of 41.9ms", or why not: for people.
  std::string reason;
};

/// Whether to fuse, and into how many chunks. A pure function: the same on every rank.
///
///   // 1024 x 1024 floats, gathered from two ranks over 1 Gbit/s and multiplied by as many at 100 Gflop/s.
///   choose_overlap({.kind = OverlapKind::GatherMatmul, .dim = OverlapDim::Rows, .members = 2, .rows = 1024,
///                   .inner = 1024, .columns = 1024, .element_bytes = 4}, link, compute).fuse // true
///
/// The model of unfused calls: a collective takes its latency plus received bytes / link rate. A matmul takes the time
/// of a call plus flops / flop rate plus bytes of its operands / memory rate, so that two halves of a matmul of few
/// rows take longer than one matmul. The model of a fused call: chunks go round a ring; a member computes its own shard
/// while the first chunks are sent, and the device's own time for messages is added to its compute. Fusing must gain
/// more than a margin.
OverlapChoice choose_overlap(const OverlapCase& overlap, const Link& link, const Compute& compute);

/// Whether so little is sent or computed that fusing does not pay under any rates. Cheap enough for every call.
bool too_small_to_overlap(const OverlapCase& overlap);

} // namespace weft
