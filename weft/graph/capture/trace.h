#pragma once

#include "weft/graph/ir/graph.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::graph {

/// A tensor or a number of a trace, as the index among the trace's values.
using ValueId = size_t;

/// A recorded call, and the calls that its kernel made if they contain more information than the call itself.
struct TracedCall {
  Target target;
  Arguments arguments = {}; // operands by their index in `operands`
  std::vector<ValueId> operands = {};
  std::vector<std::optional<ValueId>> outputs = {};
  std::vector<int64_t> lists = {}; // as Node::output_lists
  std::vector<std::unique_ptr<TracedCall>> inner = {};
  TracedCall* outer = nullptr;

  /// Whether `inner` computes all results, so that the inner calls can replace this one.
  bool is_composite = false;
  /// Whether they replace it, because something later uses a value that only an inner call returns.
  bool is_expanded = false;
  /// Whether it is a copy that an operator made before it wrote, and that is used later.
  bool is_kept = false;
  bool is_open = true;
  /// Whether the recording is unusable: the call failed, or its result was filled without operators.
  bool is_dropped = false;
  /// Why the call cannot be expanded; empty if it can.
  std::string obstacle = {};
};

struct TracedValue {
  Type type;
  std::optional<Layout> layout = std::nullopt;
  TracedCall* maker = nullptr;  // the innermost call; none for an input or a constant
  at::Tensor constant = {};     // existed before, or was not computed by operators
  const void* memory = nullptr; // the same for a tensor and its views
};

/// The recorded calls in order.
struct Trace {
  std::vector<TracedValue> values;
  std::vector<std::unique_ptr<TracedCall>> calls;
  std::optional<DeviceMesh> mesh; // the mesh of the distributed tensors

  /// The calls of the program: an expanded call is replaced by its inner calls.
  std::vector<const TracedCall*> program() const;
};

/// Whether the call writes to an operand, by its schema.
bool is_mutating(const TracedCall& call);

} // namespace weft::graph
