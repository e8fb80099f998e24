#pragma once

#include "weft/graph/ir/program.h"
#include "weft/styles/parallel_plan.h"

namespace weft::graph {

/// A plan for a program, proposed by its dataflow, for people to edit.
///
///   layers.*.attention.wq      colwise, heads 12     its features stay apart until layers.*.attention.wo sums them up
///   layers.*.attention.wo      rowwise, heads 12     sums up what layers.*.attention.wq, ... give: one all_reduce
struct ProposedPlan {
  struct Entry {
    std::string pattern;
    nn::Style style;
    std::string reason;
  };
  /// A layer that could be cut but is not.
  struct LeftOut {
    std::string pattern;
    std::string reason;
  };

  std::vector<Entry> entries; // in the order of the program
  std::vector<LeftOut> left_out;

  nn::ParallelPlan plan() const;
  /// The plan file: a line per entry, with the options that are not the default.
  std::string plan_text() const;
  /// {"plan": ..., "entries": [{"pattern", "reason"}], "left_out": [{"pattern", "reason"}]}
  std::string to_json() const;
};

/// Linear layers whose features stay apart until another one sums them up become colwise and rowwise pairs, be it through
/// attention (whose heads are found by the views that split them) or through a feed-forward; tables that are looked up by
/// what the program is given become rowwise, and layers that give what the program gives colwise. Layers of the same name
/// but for a number share an entry. `ranks` is the size of the mesh dim that the plan is for.
ProposedPlan propose_plan(const Program& program, int64_t ranks);

} // namespace weft::graph
