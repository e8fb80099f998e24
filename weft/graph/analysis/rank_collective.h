#pragma once

#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// What the call of a functional collective (_c10d_functional) says, or why it says too little.
struct RankCollective {
  Value* input = nullptr;
  Node* wait = nullptr;
  bool is_saved = false; // its own result is one of the program's too, for the backward
  int64_t members = 0;   // 0 where the operator does not say
  std::string group;
  std::string reduce_op; // in small letters
  std::string refused;
};
RankCollective read_collective(const Node& node);

} // namespace weft::graph
