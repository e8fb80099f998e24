#include "weft/graph/analysis/effects.h"

#include "weft/graph/analysis/fused_node.h"
#include "weft/graph/ir/local_redistribution.h"
#include "weft/graph/ir/schema_gaps.h"

#include <algorithm>
#include <array>

namespace weft::graph {

namespace {

constexpr std::string_view kWait = "_c10d_functional::wait_tensor";

bool starts_with_any(const std::string& name, c10::ArrayRef<std::string_view> prefixes) {
  return std::any_of(
      prefixes.begin(), prefixes.end(), [&](std::string_view prefix) { return name.starts_with(prefix); });
}

} // namespace

bool waits_for_collective(const Node& node) {
  return node.op() != nullptr && node.op()->schema().name() == kWait;
}

bool communicates(const Node& node) {
  constexpr std::array<std::string_view, 4> kNamespaces = {
      "_c10d_functional::", "_c10d_functional_autograd::", "c10d::", "symm_mem::"};
  return (node.op() != nullptr && starts_with_any(node.op()->schema().name(), kNamespaces) &&
          !waits_for_collective(node)) ||
      is_fused_operator(node) || is_local_redistribution(node);
}

bool starts_collective(const Node& node) {
  constexpr std::array<std::string_view, 5> kNames = {
      "_c10d_functional::all_reduce", "_c10d_functional::all_gather_into_tensor",
      "_c10d_functional::reduce_scatter_tensor", "_c10d_functional::all_to_all_single", "_c10d_functional::broadcast"};
  return node.op() != nullptr && starts_with_any(node.op()->schema().name(), kNames) &&
      !node.op()->schema().is_mutable();
}

bool is_random(const Node& node) {
  return node.op() != nullptr && is_random(*node.op());
}

bool has_side_effects(const Node& node) {
  if (node.op() == nullptr) {
    return node.is_return();
  }
  if (is_fused_operator(node)) {
    return !node.output()->layout; // with layouts it is a step, the same on all ranks
  }
  // An operator without returns is called for its effect: _assert_scalar, sym_constrain_range, _assert_tensor_metadata.
  const auto& schema = node.op()->schema();
  constexpr std::array<std::string_view, 2> kChecks = {"aten::_assert", "aten::_functional_assert"};
  return schema.is_mutable() || !silently_written_arguments(node).empty() || schema.returns().empty() ||
      starts_with_any(schema.name(), kChecks) || schema.name().find("sym_constrain_range") != std::string::npos ||
      communicates(node) || waits_for_collective(node);
}

} // namespace weft::graph
