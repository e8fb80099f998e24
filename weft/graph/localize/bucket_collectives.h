#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

struct BucketOptions {
  int64_t small_bytes = 64 * 1024;        // larger operands are left alone: the transfer takes most of their time
  int64_t bucket_bytes = 4 * 1024 * 1024; // the most that one collective transfers
};

/// In a rank's program, merges small all_reduces, or small all_gathers, that follow one another into one collective.
/// They must have the same group, reduction, dtype and device, and none may need the result of another.
///
///   %r = all_reduce(%a, "sum", "tp")            %cat = cat([reshape(%a, [n]), reshape(%b, [m])])
///   %s = all_reduce(%b, "sum", "tp")      ->    %w = wait_tensor(all_reduce(%cat, "sum", "tp"))
///   %v = wait_tensor(%r)                        [%p, %q] = split_with_sizes(%w, [n, m])
///   %w = wait_tensor(%s)                        %v = view(%p, ...), %w = view(%q, ...)
///
/// The merged collective takes the place of the last one, and nodes that need a result of the others move behind it.
///
/// All ranks of a group must decide alike, because each must make the same collectives in the same order. So the pass
/// looks only at what is the same on all of them: which collectives there are, in which order, the sizes of their
/// operands, and which collective needs the result of which other. A collective never moves past one of another kind or
/// group. Operands whose sizes are symbols, and results that are not contiguous, are left alone.
///
/// Returns whether it changed anything.
bool bucket_collectives(Graph& graph, const BucketOptions& options = {});

} // namespace weft::graph
