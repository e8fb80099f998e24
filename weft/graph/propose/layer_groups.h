#pragma once

#include "weft/graph/analysis/call_analysis.h"
#include "weft/graph/propose/feature_flow.h"
#include "weft/graph/propose/weighted_layers.h"

#include <set>

namespace weft::graph {

/// Linear layers whose features are combined before another layer sums over them, and that layer: queries, keys and
/// values, or the two layers of a gated feed-forward.
struct LayerGroup {
  struct Source {
    const WeightedLayer* layer;
    std::optional<int64_t> heads;
    int64_t parts = 1;
    std::vector<int64_t> part_sizes = {}; // of parts of different sizes: the heads of each, or else the features
    bool has_moments = false;             // whether a norm takes its moments over all of the features
  };
  std::vector<Source> sources;
  std::vector<const WeightedLayer*> partners; // the layers that sum over the features
  std::optional<size_t> output;               // the output of the program that has the features
  std::string obstacle;                       // why the features cannot stay sharded; empty if they can
};

/// Follows the features of all linear layers except those of `excluded` modules. A layer that sums over the features of
/// another one starts no group. A reduction over all features, as in norms, stops none: its result is a number per row.
std::vector<LayerGroup> find_layer_groups(
    const Program& program,
    const std::unordered_map<const Node*, WeightedLayer>& layers,
    const std::set<std::string>& excluded);

} // namespace weft::graph
