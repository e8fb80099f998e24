#pragma once

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/trial_values.h"

#include <ATen/core/boxing/KernelFunction.h>

namespace weft::graph {

/// Replaces a composite call by its inner calls, as capture/inline_composite.h does, also if sizes are symbols: the
/// call is recorded for two choices of trial values, and numbers that differ between the two are translated back to
/// symbols. The call stays if such a number is not a product of symbols and a number (s0 + 1, for example), if it is
/// not a size, or if the range of a symbol is too small for two trial values.
class CallInliner {
 public:
  /// The mesh's world is not used and need not exist.
  CallInliner(Program& program, const TrialValues& values, const TrialValues& other_values, const DeviceMesh& mesh);

  /// Inlines the composite kernel of the operator. Returns false if the call stays.
  bool composite(Node* node);
  /// Inlines a kernel on distributed tensors.
  bool by_kernel(Node* node, const c10::KernelFunction& kernel);

 private:
  /// A graph of this call alone, with trial values as sizes, after the call was replaced.
  struct Recording {
    std::unique_ptr<Graph> graph;
    StandIns stand_ins;
  };

  bool has_symbols(const Node& node) const;
  bool can_be_recorded(const Node& node, const TrialValues& values) const;
  bool replaced_by_recordings(Node* node, const c10::KernelFunction* kernel);
  std::optional<Recording> record(const Node& node, const TrialValues& values, const c10::KernelFunction* kernel) const;
  /// Computes symbols from the sizes of inputs. Returns false, without changes, if no input has a symbol of the node.
  bool define_symbols(GraphBuilder& build, Node* before) const;

  Program& program_;
  const TrialValues& values_;
  const TrialValues& other_values_;
  DeviceMesh mesh_; // over a fake world, because nothing is communicated
};

} // namespace weft::graph
