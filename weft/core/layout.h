#pragma once

#include "weft/core/placement.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <initializer_list>

namespace weft {

/// A mesh has at most this many dims, so that sets of mesh dims and layouts stay small values.
constexpr int64_t kMaxMeshDims = 8;

using Placements = c10::SmallVector<Placement, 4>;
/// Indices of mesh dims, each at most once.
using MeshDims = c10::SmallVector<int64_t, 4>;

/// One placement per mesh dim, and the shard order of every tensor dim that several mesh dims shard.
///
///   {S(0), R}              mesh dim 0 shards tensor dim 0
///   {S(0), S(0)}           mesh dim 0 shards first, then mesh dim 1 shards each of those shards (the default order)
///   {S(0)[1], S(0)[0]}     mesh dim 1 shards first
class Layout {
 public:
  Layout() = default;
  /// In the default shard order: an earlier mesh dim shards first.
  Layout(std::initializer_list<Placement> placements)
      : Layout(c10::ArrayRef<Placement>(placements.begin(), placements.end())) {}
  Layout(c10::ArrayRef<Placement> placements);
  /// `positions[m]` is the position of mesh dim m in the shard order of its tensor dim; it is ignored if m shards no
  /// tensor dim.
  Layout(c10::ArrayRef<Placement> placements, c10::ArrayRef<int64_t> positions);

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
  /// The position of this mesh dim in the shard order of its tensor dim; 0 if it shards none.
  int64_t shard_position(int64_t mesh_dim) const {
    return positions_[mesh_dim];
  }

  /// The mesh dims that shard a tensor dim, in the order in which they divide it.
  MeshDims shard_order(int64_t tensor_dim) const;
  bool has_default_order() const;
  bool has_partial() const;
  bool has_shard() const;

  /// The layout with negative tensor dims counted from the end; raises for a dim that a tensor of this ndim does not
  /// have.
  Layout normalized(int64_t tensor_ndim) const;

  /// The layout with another placement on one mesh dim; a new shard comes last in the shard order of its tensor dim.
  Layout with(int64_t mesh_dim, Placement placement) const;

  std::string to_string() const;
  size_t hash() const;
  friend bool operator==(const Layout& a, const Layout& b) {
    return a.placements_ == b.placements_ && a.positions_ == b.positions_;
  }

 private:
  void remove_shard(int64_t mesh_dim);

  Placements placements_;
  c10::SmallVector<int8_t, kMaxMeshDims> positions_;
};

std::ostream& operator<<(std::ostream& out, const Layout& layout);

} // namespace weft
