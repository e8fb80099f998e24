#pragma once

#include "weft/graph/ir/program.h"
#include "weft/styles/parallel_plan.h"

namespace weft::graph {

/// A parallel plan for a program, proposed from its dataflow, for users to edit.
///
///   layers.*.attention.wq      colwise, heads 12     its features stay apart until layers.*.attention.wo sums them up
///   layers.*.attention.wo      rowwise, heads 12     sums up what layers.*.attention.wq, ... give: one all_reduce
struct ProposedPlan {
  struct Entry {
    std::string pattern;
    nn::Style style;
    std::string reason;
  };
  /// Modules that are fully sharded (propose_units).
  struct Unit {
    nn::ParallelPlan::Unit unit;
    std::string reason;
  };
  /// A layer or a parameter that stays replicated.
  struct LeftOut {
    std::string pattern;
    std::string reason;
  };

  std::vector<Entry> entries; // in the order of the program
  std::vector<Unit> units;
  std::vector<LeftOut> left_out;
  int64_t parameters = 0; // the elements of all parameters
  int64_t replicated = 0; // of those that every rank holds

  nn::ParallelPlan plan() const;
  /// The plan file: a line per entry, with the options that are not the default.
  std::string plan_text() const;
  /// {"plan": ..., "parameters": 90432, "replicated": 320, "entries": [{"pattern", "reason"}], "left_out": [{"pattern", "reason"}]}
  std::string to_json() const;
};

/// Linear layers whose features stay sharded until another layer sums over them become colwise and rowwise pairs,
/// through attention (whose heads are found by the views that split them) or through a feed-forward. Tables that are
/// looked up by user inputs become rowwise, and layers that compute the program's outputs colwise. Layers whose names
/// differ only by a number share an entry. `ranks` is the size of the mesh dim of the plan.
ProposedPlan propose_plan(const Program& program, int64_t ranks);

} // namespace weft::graph
