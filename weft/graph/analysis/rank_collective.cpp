#include "weft/graph/analysis/rank_collective.h"

#include "weft/graph/analysis/call_arguments.h"
#include "weft/graph/analysis/effects.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

/// Finds the wait for the collective's result, and the other uses of the result.
void find_wait(const Node& node, RankCollective& collective) {
  if (node.output() == nullptr) {
    collective.refused = "nothing comes of it";
    return;
  }
  for (const auto& use : node.output()->uses()) {
    if (use.node->is_return()) {
      collective.is_saved = true;
    } else if (!waits_for_collective(*use.node)) {
      collective.refused = c10::str(target_name(*use.node), " uses what has not arrived");
    } else if (collective.wait != nullptr) {
      collective.refused = "it is waited for twice";
    } else {
      collective.wait = use.node;
    }
  }
  if (collective.wait == nullptr || collective.wait->output() == nullptr) {
    collective.refused = "nothing waits for it";
  }
}

} // namespace

RankCollective read_collective(const Node& node) {
  RankCollective collective;
  const CallArguments arguments(node);
  const auto& schema = node.op()->schema();
  if (schema.is_mutable()) {
    collective.refused = "it writes to a tensor that is given";
  } else if (schema.name().ends_with("_coalesced")) {
    collective.refused = "it is one of several tensors at once";
  }
  collective.input = arguments.tensor("input");
  collective.group = arguments.text("group_name").value_or("");
  collective.reduce_op = arguments.text("reduce_op").value_or("");
  std::transform(
      collective.reduce_op.begin(), collective.reduce_op.end(), collective.reduce_op.begin(),
      [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  collective.members = arguments.integer("group_size").value_or(0);
  if (!collective.refused.empty()) {
    return collective;
  }
  if (collective.input == nullptr) {
    collective.refused = "it is given no tensor";
  } else if (collective.group.empty()) {
    collective.refused = "its group has no name";
  } else if (schema.argumentIndexWithName("group_size") && collective.members == 0) {
    collective.refused = "the number of its members is not known";
  } else if (collective.members == 1) {
    collective.refused = "the group has one member";
  } else {
    find_wait(node, collective);
  }
  return collective;
}

} // namespace weft::graph
