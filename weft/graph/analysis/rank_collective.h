#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// The call of a functional collective (_c10d_functional), or why passes cannot use it.
struct RankCollective {
  Value* input = nullptr;
  Node* wait = nullptr;
  bool is_saved = false; // the program also returns its result, for the backward
  int64_t members = 0;   // 0 if the operator does not state it
  std::string group;
  std::string reduce_op; // in lower case
  std::string refused;
};
RankCollective read_collective(const Node& node);

} // namespace weft::graph
