#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

struct LocalizeOptions {
  /// Names of groups, by the mesh dims they span: {"tp", "0"}. A group that is not listed is named by its mesh dims.
  std::map<std::string, std::string> group_names = {};
  /// Local weights that cannot be views of the global ones are on `meta`. The caller copies them, one by one.
  bool defers_copies = false;
};

/// The program that one rank runs, made of a program that tensor_parallel made parallel. Its tensors are the rank's
/// local tensors, with their sizes, and its redistributions are functional collectives (_c10d_functional) whose groups
/// are named by the mesh dims they span ("tp", "dp,tp"). Its weights are views of the global ones where a local tensor
/// can be a view.
Program localize(const Program& program, int64_t rank, const LocalizeOptions& options = {});

} // namespace weft::graph
