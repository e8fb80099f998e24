#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

struct LocalizeOptions {
  /// What groups are called, by the mesh dims they span: {"tp", "0"}. Those that are not named here are called by these.
  std::map<std::string, std::string> group_names = {};
  /// Weights whose parts would be copies, not views of the whole, are on `meta`: whoever needs them makes them one by one.
  bool defers_copies = false;
};

/// The program that one rank runs, of a program that tensor_parallel made parallel: tensors are the rank's parts, sizes
/// are theirs, and redistributions are functional collectives (_c10d_functional) whose groups are called by the mesh dims
/// they span ("tp", "dp,tp"). Its weights are views of the whole ones wherever a part can be one.
Program localize(const Program& program, int64_t rank, const LocalizeOptions& options = {});

} // namespace weft::graph
