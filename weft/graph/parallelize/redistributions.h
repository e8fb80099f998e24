#pragma once

#include "weft/graph/analysis/call_analysis.h"
#include "weft/graph/parallelize/memory_copies.h"

namespace weft::graph {

/// Inserts redistributions into a graph that is walked in order. What was brought to a layout once is used again by all
/// that want it there, until it is written to.
class Redistributions {
 public:
  Redistributions(Graph& graph, CallAnalysis& analysis, MemoryCopies& memory)
      : graph_(graph), analysis_(analysis), memory_(memory) {}

  /// The value under a layout, by steps before `before` where it has to move.
  Value* bring(Value* value, const Layout& layout, Node* before);
  /// The value that a redistributed one came from; itself otherwise.
  const Value* source_of(const Value* value) const;
  /// A value was written to: copies of it are no longer what it is.
  void forget_copies_of(const Value* value);

 private:
  struct PlanHash {
    size_t operator()(const std::pair<const TensorSpec*, const TensorSpec*>& key) const {
      return reinterpret_cast<size_t>(key.first) * 31 + reinterpret_cast<size_t>(key.second);
    }
  };

  struct KnownPlan {
    Plan plan; // keeps both specs alive
    std::vector<SharedStep> steps;
  };

  const KnownPlan& plan_for(const SpecPtr& source, const SpecPtr& target);

  Graph& graph_;
  CallAnalysis& analysis_;
  MemoryCopies& memory_;
  ValueTable<c10::SmallVector<Value*, 1>> copies_; // of every value, each in a layout of its own
  ValueTable<const Value*> sources_;
  std::unordered_map<std::pair<const TensorSpec*, const TensorSpec*>, KnownPlan, PlanHash> plans_;
};

} // namespace weft::graph
