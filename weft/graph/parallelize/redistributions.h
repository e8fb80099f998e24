#pragma once

#include "weft/graph/analysis/call_analysis.h"
#include "weft/graph/parallelize/memory_copies.h"

namespace weft::graph {

/// Inserts redistributions into a graph during a walk in order. All uses that want a value in the same layout share one
/// redistributed copy, until the value is written to.
class Redistributions {
 public:
  Redistributions(Graph& graph, CallAnalysis& analysis, MemoryCopies& memory)
      : graph_(graph), analysis_(analysis), memory_(memory) {}

  /// The value in a layout; inserts steps before `before` if its layout differs.
  Value* in_layout(Value* value, const Layout& layout, Node* before);
  /// The value that a redistributed one was made from; otherwise the value itself.
  const Value* source_of(const Value* value) const;
  /// A value was written to: earlier copies of it are outdated.
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
  ValueTable<c10::SmallVector<Value*, 1>> copies_; // the copies of every value, one per layout
  ValueTable<const Value*> sources_;
  std::unordered_map<std::pair<const TensorSpec*, const TensorSpec*>, KnownPlan, PlanHash> plans_;
};

} // namespace weft::graph
