#pragma once

#include "weft/graph/ir/program.h"
#include "weft/overlap/overlap_cost.h"

namespace weft::graph {

/// How long the nodes of a program take by a model of the machine. The times are the same on every rank of a parallel
/// program, since all shards are taken to be of equal size. Symbols have the values that they had at the export.
class NodeTimes {
 public:
  /// One link for all groups.
  NodeTimes(const Program& program, const Link& link, const Compute& compute);

  /// The time of a matmul, a convolution or attention; 0 for other nodes, which are too short to hide a collective.
  double compute_seconds(const Node& node) const;
  /// The time of a redistribution step or of a functional collective; 0 for a node that does not communicate.
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
