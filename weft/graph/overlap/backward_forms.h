#pragma once

#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// Rewrites the nodes next to collectives in captured backward passes into the forms that forward passes have, so that
/// the same fusions apply.
///
/// The gradient of a matmul's left-hand side becomes a matmul of its own if a collective produces its operand or takes
/// its result. The gradient of the right-hand side stays:
///
///   %dx, %dw = matmul_backward(%g, %x, %w, [True, True])     %t = t(%w), %dx = matmul(%g, %t)
///   %r = reduce_scatter(%dx, ...)                      ->    _, %dw = matmul_backward(%g, %x, %w, [False, True])
///
/// Reduce-scatters whose results are added, as for the gradients of a value that several layers use, become one
/// reduce-scatter of the sum:
///
///   add(reduce_scatter(%a, ...), reduce_scatter(%b, ...))     ->    reduce_scatter(add(%a, %b), ...)
///
/// Only changes programs of global tensors; a program of one rank is left as it is.
void rewrite_backward(ProgramRewriter& rewriter);

} // namespace weft::graph
