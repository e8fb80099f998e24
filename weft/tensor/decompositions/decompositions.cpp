#include "weft/tensor/decompositions/decompositions.h"

namespace weft {

namespace {

Decompositions all_decompositions() {
  Decompositions all;
  add_moment_decompositions(all);
  add_norm_decompositions(all);
  add_batch_norm_decompositions(all);
  add_layer_norm_decompositions(all);
  add_convolution_decompositions(all);
  add_loss_decompositions(all);
  add_comparison_decompositions(all);
  add_view_decompositions(all);
  return all;
}

const DecompositionSource kSource(all_decompositions);

} // namespace

} // namespace weft
