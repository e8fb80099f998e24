#pragma once

#include "weft/graph/overlap/overlap_decision.h"

namespace weft::graph {

/// Overlaps collectives with the matmuls that use their result or produce their operand. An all-gather and the matmuls
/// that use its result become weft::all_gather_matmul. Matmuls and the reduce-scatter of their sum become
/// weft::matmul_reduce_scatter. An all-reduce of a product becomes weft::matmul_reduce_scatter and a gather. The
/// program is either one of global tensors with layouts, which is localized for each rank later, or that of one rank,
/// with functional collectives.
///
///   for (const auto& decision : micro_pipeline(program, {.mode = OverlapMode::Auto})) {
///     std::cout << decision.to_string() << "\n"; // all_gather %all_gather over tp: fused with 3 matmuls, ...
///   }
///
/// Every all-gather, reduce-scatter and all-reduce gets a decision, in the order of the program. A collective that
/// other compute hides already stays as it is. Decides by sizes, layouts and rates that are the same on all ranks, so
/// that all ranks decide alike. Takes time linear in the size of the graph.
OverlapDecisions micro_pipeline(Program& program, const OverlapOptions& options = {});

} // namespace weft::graph
