#include "weft/graph/exec/written_inputs.h"

#include "weft/graph/analysis/memory_sharing.h"

namespace weft::graph {

std::unordered_set<const Value*> written_inputs(const Graph& graph) {
  const MemorySharing memory(graph, Forwarding::Known);
  std::unordered_set<const Value*> inputs;
  for (const auto* input : graph.inputs()) {
    if (memory.is_written(input)) {
      inputs.insert(input);
    }
  }
  return inputs;
}

} // namespace weft::graph
