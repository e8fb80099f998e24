#pragma once

#include "weft/graph/analysis/node_order.h"
#include "weft/graph/overlap/collective_forms.h"

namespace weft::graph {

inline bool has_elements(const TensorType& type) {
  return std::none_of(type.sizes.begin(), type.sizes.end(), [](const Size& size) { return size == Size(0); });
}

/// all_gather_into_tensor of a rank's program, its wait, and the nodes that rearrange the received shards.
///
/// The full tensor is the last value that holds all shards joined in their order and that another node uses. Values
/// before it that other nodes use are kept. If there is no such value, and shards are joined in a way that is no
/// gather, the gather is refused for that reason.
Gather gather_of_rank(Node& node, const NodeNumbers& numbers, size_t& looked_at);
/// reduce_scatter_tensor, the nodes that rearrange the shards before it, and its wait.
Scatter scatter_of_rank(Node& node, const NodeNumbers& numbers, size_t& looked_at);
/// all_reduce and its wait.
Reduction reduction_of_rank(Node& node);

} // namespace weft::graph
