#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

struct BucketOptions {
  int64_t small_bytes = 64 * 1024; // operands up to this are put together: the time of larger ones is in the transfer
  int64_t bucket_bytes = 4 * 1024 * 1024; // of one collective at most
};

/// In a rank's program, puts small all_reduces, or small all_gathers, that follow one another into one: of the same group,
/// reduction, dtype and device, none of which needs the result of another.
///
///   %r = all_reduce(%a, "sum", "tp")            %cat = cat([reshape(%a, [n]), reshape(%b, [m])])
///   %s = all_reduce(%b, "sum", "tp")      ->    %w = wait_tensor(all_reduce(%cat, "sum", "tp"))
///   %v = wait_tensor(%r)                        [%p, %q] = split_with_sizes(%w, [n, m])
///   %w = wait_tensor(%s)                        %v = view(%p, ...), %w = view(%q, ...)
///
/// The one collective stands in the place of the last, and what needs a result of the others moves behind it.
///
/// All ranks of a group must decide alike. So only what is the same on all of them is looked at: which collectives there
/// are, in which order, their operands' sizes, and which of them need which others' results. None passes another one of
/// another kind or group. Sizes that are symbols, and results that are not contiguous, are left alone.
///
/// Returns whether it changed anything.
bool bucket_collectives(Graph& graph, const BucketOptions& options = {});

} // namespace weft::graph
