#pragma once

#include "weft/rules/rule.h"

namespace weft::graph {

/// Where the features that a layer gives lie in a tensor that is made of them, as views split, move and join their dim.
///
///   linear       [b, l, 48]           features(48)
///   view         [b, l, 12, 4]        features(12 by 4), features(4 by 1)     a feature is 4*i + j
///   transpose    [b, 12, l, 4]
///
/// The outermost of them is what a cut of the layer's features cuts.
struct FeatureDims {
  struct Stretch {
    int64_t size;
    int64_t step; // between features, along it; 0 where it is none of the layer's features
  };
  using Dim = std::vector<Stretch>; // the one that varies slowest first

  std::vector<Dim> dims;
  int64_t parts = 1; // that the features consist of, of which the tensor has one

  /// Features in the last dim of a tensor.
  static FeatureDims last(c10::IntArrayRef sizes);

  /// The step of the outermost stretch; 0 where there are no features left.
  int64_t outermost() const;
  /// How long that is: the number of heads, where a view has split the features.
  int64_t outermost_size() const;
  /// Whether it is what varies slowest in the last dim.
  bool leads_last_dim() const;
};

/// What a call does to the features in one of its operands.
struct FeaturePassage {
  enum class Kind : uint8_t {
    Passes,  // outputs are cut where the operand is
    Reduced, // it computes a sum over them
    Stopped, // it needs all of them
  };
  Kind kind;
  Rule::Factor factor = -1; // that the outermost features are, where they pass or are reduced
  std::vector<std::optional<FeatureDims>> outputs = {}; // of every tensor that comes out
};

/// `is_view`: whether the call moves no data, so that what it leaves out along a dim are parts of the features.
FeaturePassage pass_features(const Rule& rule, size_t operand, const FeatureDims& features, bool is_view);

} // namespace weft::graph
