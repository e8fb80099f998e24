#pragma once

#include "weft/graph/analysis/call_analysis.h"
#include "weft/graph/propose/feature_flow.h"
#include "weft/graph/propose/weighted_layers.h"

#include <set>

namespace weft::graph {

/// Linear layers whose features meet before another one sums them up, and what does: queries, keys and values, or the two
/// of a gated feed-forward.
struct LayerGroup {
  struct Source {
    const WeightedLayer* layer;
    std::optional<int64_t> heads;
    int64_t parts = 1;
  };
  std::vector<Source> sources;
  std::vector<const WeightedLayer*> partners; // that sum the features up
  std::optional<size_t> output;               // of the program, that has the features
  std::string obstacle;                       // why the features cannot stay apart; empty where they can
};

/// Follows the features of all linear layers but those of `excluded` modules. A layer that sums up those of another gives
/// none of its own.
std::vector<LayerGroup> find_layer_groups(
    const Program& program,
    const std::unordered_map<const Node*, WeightedLayer>& layers,
    const std::set<std::string>& excluded);

} // namespace weft::graph
