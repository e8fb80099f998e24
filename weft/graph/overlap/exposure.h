#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

/// How long nodes take, in seconds: see NodeTimes for a model. Of a node that computes, 0 where it hides nothing.
struct ExposureTimes {
  std::function<double(const Node&)> collective;
  std::function<double(const Node&)> compute;
};

/// How much of a collective's time other work takes, which neither needs it nor is needed by it.
struct Exposure {
  Node* collective;           // the step, or the functional collective that starts
  double seconds = 0;         // its time
  double hidden = 0;          // of that, beside the nodes of `by`
  std::vector<Node*> by = {}; // in order

  bool is_hidden() const {
    return hidden >= seconds;
  }
};

struct Exposures {
  std::vector<Exposure> collectives; // in the order of the graph
  /// Uses and nodes that were looked at: no more than a few times what the graph has.
  size_t looked_at = 0;
};

/// For every collective, what hoist_collectives makes of it: it starts where its operand is there and the collective before
/// it has started, and is waited for where its result is first used. What computes in between, in the order of the graph,
/// hides it. Time that hides one collective hides no other: each takes what is left, the first collective first.
///
///   %a = aten::mm(%x, %y)
///   %r = all_reduce(%p, "sum", "tp")       starts before %a, which hides it
///   %w = wait_tensor(%r)
///   %b = aten::mm(%w, %y)
///
/// In a parallel program a step is looked at as localize will write it: what pads, cuts or joins stands where the step does.
Exposures find_exposure(const Program& program, const ExposureTimes& times, size_t in_flight = 16);

} // namespace weft::graph
