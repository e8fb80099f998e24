#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

/// How a tensor holds the shards of the members of a group.
struct Arrangement {
  enum class Kind : uint8_t {
    Joined,  // joined along dim `at`, in the order of the members
    Stacked, // stacked: dim `at` has one index per member
    Shard,   // the shard of member `at` only
    Slice,   // any other slice
  };
  Kind kind;
  int64_t at;

  friend bool operator==(const Arrangement&, const Arrangement&) = default;
};

/// How the outputs of a node hold shards, if its first argument holds them as `from`. Knows nodes that split between
/// shards, view them as a stack, move the dim of the stack, or view the bits as another dtype. Empty for any other
/// node.
///
///   [%a: f32[2,8], %b: f32[2,8]] = aten::split.Tensor(%w, 2)     of %w joined along 0: shards 0 and 1
///   %s: f32[2,2,8] = aten::view(%w, [2,2,8])                     stacked along 0
///
/// Sizes of symbols are equal only if they are equal for all values of the symbols.
std::vector<Arrangement> rearranged(const Node& node, const Arrangement& from, int64_t members);

/// How the join of a list of tensors holds shards, or why it does not hold all shards in their order.
struct JoinedShards {
  std::optional<Arrangement> arrangement;
  std::string refused;
  size_t looked_at = 0; // number of tensors that were looked at
};
/// For aten::cat and aten::stack; `of(value)` says how a value holds shards, if it holds any.
using ShardsOf = std::function<std::optional<Arrangement>(const Value*)>;
JoinedShards joined_shards(const Node& node, int64_t members, const ShardsOf& of);

/// Whether a node is one that joined_shards knows.
bool joins_tensors(const Node& node);

/// Whether sizes are the same for all values of the symbols.
bool is_same(const Size& a, const Size& b);
bool is_same(const Sizes& a, const Sizes& b);
/// The sizes with that of `dim` multiplied by `factor`.
Sizes multiplied(Sizes sizes, int64_t dim, int64_t factor);

} // namespace weft::graph
