#pragma once

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/trial_values.h"

#include <ATen/core/boxing/KernelFunction.h>

namespace weft::graph {

/// Puts in place of a call what it is made of, as capture/inline_composite.h does, also where sizes are symbols: the call
/// is recorded for two choices of numbers in their place, and what differs between the two is written out in symbols
/// again. What is no product of symbols and a number, such as s0 + 1, is not understood, and the call stays. So it does
/// where a number is no size, or where a symbol has too small a range to be taken for two numbers.
class CallInliner {
 public:
  /// The mesh's world is not spoken to, and need not be there.
  CallInliner(Program& program, const TrialValues& values, const TrialValues& other_values, const DeviceMesh& mesh);

  /// By the kernel of the operator that is made of other operators. False where it stays.
  bool composite(Node* node);
  /// By a kernel on distributed tensors.
  bool by_kernel(Node* node, const c10::KernelFunction& kernel);

 private:
  /// A call alone in a graph, of numbers, after it was replaced.
  struct Recording {
    std::unique_ptr<Graph> graph;
    StandIns stand_ins;
  };

  bool has_symbols(const Node& node) const;
  bool can_be_recorded(const Node& node, const TrialValues& values) const;
  bool replaced_by_recordings(Node* node, const c10::KernelFunction* kernel);
  std::optional<Recording> record(const Node& node, const TrialValues& values, const c10::KernelFunction* kernel) const;
  /// By inputs. False, and nothing done, where that is not possible of some that the node has.
  bool define_symbols(GraphBuilder& build, Node* before) const;

  Program& program_;
  const TrialValues& values_;
  const TrialValues& other_values_;
  DeviceMesh mesh_; // with nobody to talk to
};

} // namespace weft::graph
