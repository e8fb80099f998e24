#pragma once

#include "weft/core/placement.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <initializer_list>

namespace weft {

/// A mesh has at most this many dims, so that sets of mesh dims and layouts stay small values.
constexpr int64_t kMaxMeshDims = 8;

using Placements = c10::SmallVector<Placement, 4>;
/// Mesh dims by index, each at most once.
using MeshDims = c10::SmallVector<int64_t, 4>;

/// One placement per mesh dim, and where several mesh dims cut the same tensor dim, whose turn comes first.
///
///   {S(0), R}              mesh dim 0 cuts tensor dim 0
///   {S(0), S(0)}           mesh dim 0 cuts first, mesh dim 1 cuts each of its pieces (the default order)
///   {S(0)[1], S(0)[0]}     mesh dim 1 cuts first
class Layout {
 public:
  Layout() = default;
  /// In the default order: an earlier mesh dim cuts first.
  Layout(std::initializer_list<Placement> placements)
      : Layout(c10::ArrayRef<Placement>(placements.begin(), placements.end())) {}
  Layout(c10::ArrayRef<Placement> placements);
  /// `turns[m]` is the position of mesh dim m among those that cut its tensor dim; of no meaning where m cuts none.
  Layout(c10::ArrayRef<Placement> placements, c10::ArrayRef<int64_t> turns);

  static Layout parse(std::string_view text);
  static Layout parse(TextCursor& cursor);

  int64_t ndim() const {
    return static_cast<int64_t>(placements_.size());
  }
  const Placement& operator[](int64_t mesh_dim) const {
    return placements_[mesh_dim];
  }
  c10::ArrayRef<Placement> placements() const {
    return placements_;
  }
  /// The position of this mesh dim among those that cut its tensor dim; 0 where it cuts none.
  int64_t turn(int64_t mesh_dim) const {
    return turns_[mesh_dim];
  }

  /// The mesh dims that cut a tensor dim, first cut first.
  MeshDims shard_order(int64_t tensor_dim) const;
  bool has_default_order() const;
  bool has_partial() const;
  bool has_shard() const;

  /// Negative dims counted from the end; raises for a dim that a tensor of this rank does not have.
  Layout normalized(int64_t tensor_rank) const;

  /// The layout with another placement on one mesh dim; a shard cuts after all others of its tensor dim.
  Layout with(int64_t mesh_dim, Placement placement) const;

  std::string to_string() const;
  size_t hash() const;
  friend bool operator==(const Layout& a, const Layout& b) {
    return a.placements_ == b.placements_ && a.turns_ == b.turns_;
  }

 private:
  void remove_cut(int64_t mesh_dim);

  Placements placements_;
  c10::SmallVector<int8_t, kMaxMeshDims> turns_;
};

std::ostream& operator<<(std::ostream& out, const Layout& layout);

} // namespace weft
