#pragma once

#include <torch/library.h>

namespace weft {

/// Registers composite operators of ATen whose own code, beside other operators, makes tensors of shapes alone (the
/// identity, a triangle, positions: the same on every rank, so they count as replicated inside) or reads numbers out of
/// an argument's memory (lengths, positions: it is given the whole argument). What the caller gives must be distributed,
/// as with every operator; numbers may be plain. Where operators are recorded for backward and below.
///
///   at::quantile(x, q)                  the positions it makes of q and of x's sizes are no error
///   at::ctc_loss(x, targets, l, m)      l and m may be distributed
void register_composites(torch::Library& library);

} // namespace weft
