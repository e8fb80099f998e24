#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

/// How long nodes take, in seconds: see NodeTimes for a model. The time of a node that cannot hide a collective is 0.
struct ExposureTimes {
  std::function<double(const Node&)> collective;
  std::function<double(const Node&)> compute;
};

/// How much of a collective's time is hidden by nodes that compute meanwhile. These neither use its result nor produce
/// its operand.
struct Exposure {
  Node* collective;           // the step, or the functional collective that starts
  double seconds = 0;         // its time
  double hidden = 0;          // the part of it that the nodes of `by` overlap
  std::vector<Node*> by = {}; // in order

  bool is_hidden() const {
    return hidden >= seconds;
  }
};

struct Exposures {
  std::vector<Exposure> collectives; // in the order of the graph
  /// How many uses and nodes were looked at: at most a few times as many as the graph has.
  size_t looked_at = 0;
};

/// Computes for every collective how much of it is hidden once hoist_collectives has moved it: it starts when its
/// operand is computed and the previous collective has started, and is waited for where its result is first used. Nodes
/// that compute in between, in the order of the graph, hide it. A second of compute hides only one collective: the
/// first collective takes what it needs, and later ones take what is left.
///
///   %a = aten::mm(%x, %y)
///   %r = all_reduce(%p, "sum", "tp")       starts before %a, which hides it
///   %w = wait_tensor(%r)
///   %b = aten::mm(%w, %y)
///
/// A redistribution step of a parallel program is looked at as localize will lower it. Nodes that pad, slice or join
/// stay where the step is, and a collective next to them cannot start earlier, or be waited for later.
Exposures find_exposure(const Program& program, const ExposureTimes& times, size_t in_flight = 16);

} // namespace weft::graph
