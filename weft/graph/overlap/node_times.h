#pragma once

#include "weft/graph/ir/program.h"
#include "weft/overlap/overlap_cost.h"

namespace weft::graph {

/// How long the nodes of a program take by a model of the machine: the same on every rank of a parallel program, whose
/// tensors are taken in even shares. Symbols are what they were at the export.
class NodeTimes {
 public:
  /// One link for all groups.
  NodeTimes(const Program& program, const Link& link, const Compute& compute);

  /// Of a matmul, a convolution or attention; 0 of everything else, which is too short to hide anything.
  double compute_seconds(const Node& node) const;
  /// Of a step, or of a functional collective; 0 of what communicates nothing.
  double collective_seconds(const Node& node) const;

 private:
  double elements(const Value& value) const;
  double bytes(const Value& value) const;
  double size(const Value& value, int64_t dim) const;
  double flops(const Node& node) const;

  const Program& program_;
  Link link_;
  Compute compute_;
  Size::Values hints_;
};

} // namespace weft::graph
