#pragma once

#include "weft/rules/rule.h"

namespace weft::graph {

/// The positions of a layer's output features in a tensor that is computed from them, as views split, move and join
/// their dim.
///
///   linear       [b, l, 48]           features(48)
///   view         [b, l, 12, 4]        features(12 by 4), features(4 by 1)     a feature is 4*i + j
///   transpose    [b, 12, l, 4]
///
/// Sharding the layer's features shards the outermost of these dims.
struct FeatureDims {
  struct Stretch {
    int64_t size;
    int64_t step; // between features along it; 0 if it has none of the layer's features
  };
  using Dim = std::vector<Stretch>; // the slowest varying stretch first

  std::vector<Dim> dims;
  int64_t parts = 1; // how many joint projections the features consist of; the tensor has one

  /// Features in the last dim of a tensor.
  static FeatureDims last(c10::IntArrayRef sizes);

  /// The step of the outermost stretch; 0 if there are no features left.
  int64_t outermost() const;
  /// The length of the outermost stretch: the number of heads if a view has split the features.
  int64_t outermost_size() const;
  /// Whether it varies slowest in the last dim.
  bool leads_last_dim() const;
};

/// What a call does to the features in one of its operands.
struct FeaturePassage {
  enum class Kind : uint8_t {
    Passes,  // the outputs are sharded like the operand
    Reduced, // it computes a sum over them
    Stopped, // it needs all of them
  };
  Kind kind;
  Rule::Factor factor = -1; // the factor of the outermost features, if they pass or are reduced
  std::vector<std::optional<FeatureDims>> outputs = {}; // of every output tensor
};

/// `is_view`: whether the call moves no data, so that a dim that it leaves out selects one of the joint projections.
FeaturePassage pass_features(const Rule& rule, size_t operand, const FeatureDims& features, bool is_view);

} // namespace weft::graph
