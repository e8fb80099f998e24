#pragma once

#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// Brings what stands beside collectives in captured backward passes to the forms of forward ones.
///
/// The gradient of a matmul's left-hand side, where a collective gives what it is of or takes it away, becomes a matmul of its
/// own; that of the other side stays:
///
///   %dx, %dw = matmul_backward(%g, %x, %w, [True, True])     %t = t(%w), %dx = matmul(%g, %t)
///   %r = reduce_scatter(%dx, ...)                      ->    _, %dw = matmul_backward(%g, %x, %w, [False, True])
///
/// Of reduce-scatters whose results are added up, as the gradients of a value that several layers take are, one is left, of
/// the sum:
///
///   add(reduce_scatter(%a, ...), reduce_scatter(%b, ...))     ->    reduce_scatter(add(%a, %b), ...)
///
/// Of programs of whole tensors alone: a rank's own are left as they are.
void rewrite_backward(ProgramRewriter& rewriter);

} // namespace weft::graph
