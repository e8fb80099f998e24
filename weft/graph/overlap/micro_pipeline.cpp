#include "weft/graph/overlap/micro_pipeline.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/overlap/backward_forms.h"
#include "weft/graph/overlap/gather_fusion.h"
#include "weft/graph/overlap/scatter_fusion.h"
#include "weft/graph/simplify/dead_code.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// The order of the collectives, by the names of their results.
std::unordered_map<std::string, size_t> places_of_collectives(const Graph& graph) {
  std::unordered_map<std::string, size_t> places;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (node->step() != nullptr || starts_collective(*node)) {
      places.emplace(node->output()->name(), places.size());
    }
  }
  return places;
}

/// Makes the fusions of one kind after those of another, and looks for collectives again after each kind.
class Pipelining {
 public:
  Pipelining(Program& program, const OverlapOptions& options) : rewriter_(program), members_(options.members) {
    rewrite_backward(rewriter_);
    rewriter_.erase_replaced();
    places_ = places_of_collectives(*program.graph);
    gate_.emplace(program, options);
    find();
  }

  OverlapDecisions run() {
    // All-reduces first: a fused one leaves a gather, which may be fused with other matmuls.
    fuse_all(&CollectiveForms::reductions, &fuse_reduction);
    fuse_all(&CollectiveForms::scatters, &fuse_scatter);
    fuse_all(&CollectiveForms::gathers, &fuse_gather);
    // Decisions on gathers that a fused all-reduce left come last.
    std::stable_sort(decisions_.begin(), decisions_.end(), [&](const OverlapDecision& a, const OverlapDecision& b) {
      return place(a) < place(b);
    });
    return std::move(decisions_);
  }

 private:
  template <class Form, class Fuse>
  void fuse_all(std::vector<Form> CollectiveForms::*forms, const Fuse& fuse) {
    bool has_fused = false;
    for (const auto& form : forms_.*forms) {
      decisions_.push_back(fuse(rewriter_, *gate_, form));
      has_fused = has_fused || decisions_.back().fused;
    }
    if (has_fused) {
      rewriter_.erase_replaced();
      find();
    }
  }

  void find() {
    forms_ = find_collectives(rewriter_.program());
    for (auto& reduction : forms_.reductions) {
      const auto known = members_.find(reduction.group);
      if (reduction.members == 0 && known != members_.end()) {
        reduction.members = known->second;
      }
    }
  }

  size_t place(const OverlapDecision& decision) const {
    const auto found = places_.find(decision.node);
    return found == places_.end() ? places_.size() : found->second;
  }

  ProgramRewriter rewriter_;
  const std::map<std::string, int64_t>& members_;
  std::optional<OverlapGate> gate_;
  std::unordered_map<std::string, size_t> places_;
  CollectiveForms forms_;
  OverlapDecisions decisions_;
};

} // namespace

OverlapDecisions micro_pipeline(Program& program, const OverlapOptions& options) {
  if (options.is_off()) {
    return {};
  }
  auto decisions = Pipelining(program, options).run();
  const bool has_fused =
      std::any_of(decisions.begin(), decisions.end(), [](const OverlapDecision& decision) { return decision.fused; });
  if (has_fused) {
    dead_code(*program.graph); // erases views that were looked through
  }
  return decisions;
}

} // namespace weft::graph
