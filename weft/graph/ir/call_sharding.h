#pragma once

#include "weft/core/layout.h"
#include "weft/graph/ir/size.h"

#include <optional>

namespace weft::graph {

/// How one operator runs on local tensors: what differs from the call on global tensors. It is the same on every rank.
struct CallSharding {
  /// An argument that states sizes. The local call states the local sizes of this layout instead.
  struct SizeArgument {
    size_t argument;
    std::vector<int64_t> sizes; // global; symbols are replaced by their trial values
    Layout layout;
  };
  /// An operand that holds positions along a sharded dim: a rank looks up only the positions that its shard contains.
  struct Lookup {
    size_t operand;
    int64_t size;      // of the dim
    Layout layout;     // of a tensor that has only this dim
    bool masks_output; // otherwise the first operand is masked
    size_t table;      // if the output is masked: the operand that is looked up, and its dim
    int64_t table_dim;
  };

  std::vector<SizeArgument> size_arguments = {};
  std::optional<Lookup> lookup = std::nullopt;
  bool is_fallback = false;
  std::string reason; // why the rule chose this, for reports
};

} // namespace weft::graph
