#include "weft/graph/passes/micro_pipeline.h"

#include "weft/graph/passes/backward_forms.h"
#include "weft/graph/passes/dead_code.h"
#include "weft/graph/passes/effects.h"
#include "weft/graph/passes/gather_fusion.h"
#include "weft/graph/passes/scatter_fusion.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// Tries what one member of the forms lists, each in turn, on the program as it is now.
template <class Form, class Fuse>
void fuse_all(
    Program& program,
    OverlapGate& gate,
    std::vector<Form> CollectiveForms::*forms,
    const Fuse& fuse,
    OverlapDecisions& decisions) {
  const auto found = find_collectives(program);
  if ((found.*forms).empty()) {
    return;
  }
  ProgramRewriter rewriter(program);
  for (const auto& form : found.*forms) {
    decisions.push_back(fuse(rewriter, gate, form));
  }
  rewriter.erase_replaced();
}

/// Where collectives stand, by the names of what they give.
std::unordered_map<std::string, size_t> places_of_collectives(const Graph& graph) {
  std::unordered_map<std::string, size_t> places;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (node->step() != nullptr || starts_collective(*node)) {
      places.emplace(node->output()->name(), places.size());
    }
  }
  return places;
}

} // namespace

OverlapDecisions micro_pipeline(Program& program, const OverlapOptions& options) {
  OverlapDecisions decisions;
  if (options.mode == OverlapMode::Off) {
    return decisions;
  }
  {
    ProgramRewriter rewriter(program);
    rewrite_backward(rewriter);
    rewriter.erase_replaced();
  }
  const auto places = places_of_collectives(*program.graph);
  OverlapGate gate(program, options);
  // Half of an all-reduce is a gather, which matmuls may take.
  fuse_all(program, gate, &CollectiveForms::reductions, &fuse_reduction, decisions);
  fuse_all(program, gate, &CollectiveForms::scatters, &fuse_scatter, decisions);
  fuse_all(program, gate, &CollectiveForms::gathers, &fuse_gather, decisions);
  const bool has_fused = std::any_of(
      decisions.begin(), decisions.end(), [](const OverlapDecision& decision) { return decision.fused; });
  if (has_fused) {
    dead_code(*program.graph); // views that were looked through
  }
  // Those that came by the split of another are the last.
  const auto place = [&](const OverlapDecision& decision) {
    const auto found = places.find(decision.node);
    return found == places.end() ? places.size() : found->second;
  };
  std::stable_sort(decisions.begin(), decisions.end(), [&](const OverlapDecision& a, const OverlapDecision& b) {
    return place(a) < place(b);
  });
  return decisions;
}

} // namespace weft::graph
