#pragma once

#include "weft/propagation/decomposition.h"

namespace weft {

/// The families of decompositions, each in a file of its name.
void add_moment_decompositions(Decompositions& all);
void add_norm_decompositions(Decompositions& all);
void add_batch_norm_decompositions(Decompositions& all);
void add_loss_decompositions(Decompositions& all);
void add_comparison_decompositions(Decompositions& all);
void add_view_decompositions(Decompositions& all);

} // namespace weft
