#pragma once

#include "weft/core/layout.h"
#include "weft/graph/ir/size.h"

#include <optional>

namespace weft::graph {

/// How one operator is run on the ranks' parts of its tensors: what differs from the whole call, the same on every rank.
struct CallSharding {
  /// An argument that states sizes: locally it states what this layout leaves of them.
  struct SizeArgument {
    size_t argument;
    std::vector<int64_t> sizes; // whole; of symbols, what they were taken for
    Layout layout;
  };
  /// An operand that holds positions along a dim that is cut: a rank looks up those it holds.
  struct Lookup {
    size_t operand;
    int64_t size;      // of the dim
    Layout layout;     // of a tensor of that dim alone
    bool masks_output; // or else the first operand
    size_t table;      // where it masks the output: the operand that the positions are in, and the dim
    int64_t table_dim;
  };

  std::vector<SizeArgument> size_arguments = {};
  std::optional<Lookup> lookup = std::nullopt;
  bool is_fallback = false;
  std::string reason; // why it is run so, for people
};

} // namespace weft::graph
