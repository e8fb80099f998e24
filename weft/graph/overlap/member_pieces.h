#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

/// How a tensor holds one piece of every member of a group.
struct Arrangement {
  enum class Kind : uint8_t {
    Joined,  // one after the other along dim `at`
    Stacked, // dim `at` counts the members
    Piece,   // that of member `at` alone
    Part,    // what was cut otherwise
  };
  Kind kind;
  int64_t at;

  friend bool operator==(const Arrangement&, const Arrangement&) = default;
};

/// What the outputs of a node are, where its first argument holds pieces: of one that cuts between pieces, counts them by a
/// dim of their own, moves that dim, or changes the dtype's name. Empty where the node does anything else with it.
///
///   [%a: f32[2,8], %b: f32[2,8]] = aten::split.Tensor(%w, 2)     of %w joined along 0: pieces 0 and 1
///   %s: f32[2,2,8] = aten::view(%w, [2,2,8])                     stacked along 0
///
/// Sizes are compared as they are written: what may be equal when the program runs is not.
std::vector<Arrangement> rearranged(const Node& node, const Arrangement& from, int64_t members);

/// As what a list of tensors is joined, or why it is no join of all pieces in their order.
struct JoinedPieces {
  std::optional<Arrangement> arrangement;
  std::string refused;
  size_t looked_at = 0; // tensors
};
/// Of aten::cat and aten::stack; `of(value)` says what a value holds of the pieces, if anything.
using PiecesOf = std::function<std::optional<Arrangement>(const Value*)>;
JoinedPieces joined_pieces(const Node& node, int64_t members, const PiecesOf& of);

/// Whether a node is one that joined_pieces knows.
bool joins_tensors(const Node& node);

/// Whether they are the same whatever the symbols are.
bool is_same(const Size& a, const Size& b);
bool is_same(const Sizes& a, const Sizes& b);
/// The sizes with one of them so many times as long.
Sizes multiplied(Sizes sizes, int64_t dim, int64_t factor);

} // namespace weft::graph
