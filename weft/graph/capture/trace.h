#pragma once

#include "weft/graph/ir/graph.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::graph {

/// A tensor or a number of a trace, by its place among the trace's values.
using ValueId = size_t;

/// A call that was recorded, and those that its kernel made in turn where these say more than it does.
struct TracedCall {
  Target target;
  Arguments arguments = {}; // operands by their place in `operands`
  std::vector<ValueId> operands = {};
  std::vector<std::optional<ValueId>> outputs = {};
  std::vector<int64_t> lists = {}; // as Node::output_lists
  std::vector<std::unique_ptr<TracedCall>> inner = {};
  TracedCall* outer = nullptr;

  /// Whether what it gives was all made by `inner`, so that these can stand in its place.
  bool is_composite = false;
  /// Whether they do, since something that they made and it does not give is used behind it.
  bool is_expanded = false;
  /// A copy that an operator made before it wrote, and that is used behind it.
  bool is_kept = false;
  bool is_open = true;
  /// What was recorded of it is of no use: it failed, or its result was filled past the operators.
  bool is_dropped = false;
  /// Why it cannot be expanded; empty where it can.
  std::string obstacle = {};
};

struct TracedValue {
  Type type;
  std::optional<Layout> layout = std::nullopt;
  TracedCall* maker = nullptr;  // the innermost; none of an input and of a constant
  at::Tensor constant = {};     // what was there before, or was not made by operators
  const void* memory = nullptr; // the same for a tensor and its views
};

/// What was recorded, in order.
struct Trace {
  std::vector<TracedValue> values;
  std::vector<std::unique_ptr<TracedCall>> calls;
  std::optional<DeviceMesh> mesh; // of the distributed tensors among the values

  /// The calls that make up a program: those that are expanded as the ones inside them.
  std::vector<const TracedCall*> program() const;
};

/// Whether the call writes to an operand, by its schema.
bool is_mutating(const TracedCall& call);

} // namespace weft::graph
