#include "weft/tensor/decomposition.h"

namespace weft {

const Decomposition* find_decomposition(const std::string& full_name) {
  static const auto* decompositions = [] {
    auto* all = new Decompositions();
    add_moment_decompositions(*all);
    add_norm_decompositions(*all);
    add_batch_norm_decompositions(*all);
    add_loss_decompositions(*all);
    add_comparison_decompositions(*all);
    add_view_decompositions(*all);
    return all;
  }();
  const auto found = decompositions->find(full_name);
  return found == decompositions->end() ? nullptr : &found->second;
}

} // namespace weft
