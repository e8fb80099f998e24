#pragma once

#include "weft/graph/overlap/overlap_decision.h"

namespace weft::graph {

/// Lets collectives run beside the matmuls that need what they bring, or that make what they take away: an all-gather and the
/// matmuls of what it gathers become weft::all_gather_matmul, matmuls and the reduce-scatter of their sum
/// weft::matmul_reduce_scatter, and an all-reduce of a product the latter and a gather. Of a program of whole tensors, with
/// layouts, all ranks' programs are made afterwards; a rank's own program, with functional collectives, is changed as it is.
///
///   for (const auto& decision : micro_pipeline(program, {.mode = OverlapMode::Auto})) {
///     std::cout << decision.to_string() << "\n"; // all_gather %all_gather over tp, in layers.0: fused with 3 matmuls, ...
///   }
///
/// Every collective that could be one of these gets a decision, in the order of the program. What other compute hides anyway
/// stays as it is. Decides by sizes, layouts and rates that all ranks have alike. Linear in the size of the graph.
OverlapDecisions micro_pipeline(Program& program, const OverlapOptions& options = {});

} // namespace weft::graph
