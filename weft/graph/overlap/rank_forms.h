#pragma once

#include "weft/graph/analysis/node_order.h"
#include "weft/graph/overlap/collective_forms.h"

namespace weft::graph {

inline bool has_elements(const TensorType& type) {
  return std::none_of(type.sizes.begin(), type.sizes.end(), [](const Size& size) { return size == Size(0); });
}

/// all_gather_into_tensor of a rank's program, its wait, and what arranges the pieces that have come.
///
/// The whole is the last value that holds all pieces one after the other and is used for something else. Values before it
/// that are used too are kept. Where there is none but pieces are joined in a way that is no gather, that is the reason why
/// it is refused.
Gather gather_of_rank(Node& node, const NodeNumbers& numbers, size_t& looked_at);
/// reduce_scatter_tensor, what arranges the pieces before it, and its wait.
Scatter scatter_of_rank(Node& node, const NodeNumbers& numbers, size_t& looked_at);
/// all_reduce and its wait.
Reduction reduction_of_rank(Node& node);

} // namespace weft::graph
