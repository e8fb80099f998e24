#include "weft/core/layout.h"

#include "weft/core/text_cursor.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <ostream>

namespace weft {

Layout::Layout(c10::ArrayRef<Placement> placements) : placements_(placements.begin(), placements.end()) {
  positions_.resize(placements.size(), 0);
  for (size_t m = 0; m < placements_.size(); ++m) {
    for (size_t earlier = 0; placements_[m].is_shard() && earlier < m; ++earlier) {
      positions_[m] += placements_[earlier].is_shard(placements_[m].dim()) ? 1 : 0;
    }
  }
}

Layout::Layout(c10::ArrayRef<Placement> placements, c10::ArrayRef<int64_t> positions) : Layout(placements) {
  TORCH_CHECK_VALUE(
      positions.size() == placements.size(), "[Layout] one position per mesh dim is required, but got ",
      positions.size(), " positions for ", placements.size(), " placements ", to_string(), ".");
  for (size_t m = 0; m < placements_.size(); ++m) {
    if (placements_[m].is_shard()) {
      positions_[m] = static_cast<int8_t>(positions[m]);
    }
  }
  for (size_t m = 0; m < placements_.size(); ++m) {
    if (!placements_[m].is_shard()) {
      continue;
    }
    int64_t shards = 0;
    int64_t same_position = 0;
    for (size_t other = 0; other < placements_.size(); ++other) {
      if (placements_[other].is_shard(placements_[m].dim())) {
        ++shards;
        same_position += positions[other] == positions[m] ? 1 : 0;
      }
    }
    TORCH_CHECK_VALUE(
        positions[m] >= 0 && positions[m] < shards && same_position == 1, "[Layout] the positions of the ", shards,
        " mesh dims that shard tensor dim ", placements_[m].dim(), " must be 0 to ", shards - 1,
        ", each once, but got ", positions, " for ", Layout(placements).to_string(), ".");
  }
}

MeshDims Layout::shard_order(int64_t tensor_dim) const {
  MeshDims order;
  for (int64_t m = 0; m < ndim(); ++m) {
    if (placements_[m].is_shard(tensor_dim)) {
      order.resize(std::max<size_t>(order.size(), positions_[m] + 1));
      order[positions_[m]] = m;
    }
  }
  return order;
}

bool Layout::has_default_order() const {
  return positions_ == Layout(placements_).positions_;
}

bool Layout::has_partial() const {
  return std::any_of(placements_.begin(), placements_.end(), [](const Placement& p) { return p.is_partial(); });
}

bool Layout::has_shard() const {
  return std::any_of(placements_.begin(), placements_.end(), [](const Placement& p) { return p.is_shard(); });
}

Layout Layout::normalized(int64_t tensor_ndim) const {
  const auto is_normalized = [&](const Placement& p) { return p.normalized(tensor_ndim) == p; };
  if (std::all_of(placements_.begin(), placements_.end(), is_normalized)) {
    return *this;
  }
  Placements placements;
  for (const auto& placement : placements_) {
    placements.push_back(placement.normalized(tensor_ndim));
  }
  if (has_default_order()) {
    return Layout(placements);
  }
  return Layout(placements, c10::SmallVector<int64_t, kMaxMeshDims>(positions_.begin(), positions_.end()));
}

void Layout::remove_shard(int64_t mesh_dim) {
  if (!placements_[mesh_dim].is_shard()) {
    return;
  }
  for (int64_t m = 0; m < ndim(); ++m) {
    if (placements_[m].is_shard(placements_[mesh_dim].dim()) && positions_[m] > positions_[mesh_dim]) {
      --positions_[m];
    }
  }
  placements_[mesh_dim] = Replicate();
  positions_[mesh_dim] = 0;
}

Layout Layout::with(int64_t mesh_dim, Placement placement) const {
  Layout result = *this;
  result.remove_shard(mesh_dim);
  for (int64_t m = 0; placement.is_shard() && m < ndim(); ++m) {
    result.positions_[mesh_dim] += result.placements_[m].is_shard(placement.dim()) ? 1 : 0;
  }
  result.placements_[mesh_dim] = placement;
  return result;
}

std::string Layout::to_string() const {
  const bool show_positions = !has_default_order();
  std::string text = "{";
  for (int64_t m = 0; m < ndim(); ++m) {
    text += (m == 0 ? "" : ", ") + placements_[m].to_string();
    if (show_positions && placements_[m].is_shard() && shard_order(placements_[m].dim()).size() > 1) {
      text += "[" + std::to_string(positions_[m]) + "]";
    }
  }
  return text + "}";
}

Layout Layout::parse(std::string_view text) {
  TextCursor cursor("Layout::parse", text);
  auto layout = parse(cursor);
  cursor.expect_end();
  return layout;
}

Layout Layout::parse(TextCursor& cursor) {
  Placements placements;
  c10::SmallVector<int64_t, kMaxMeshDims> positions;
  bool has_positions = false;
  cursor.expect("{");
  while (!cursor.accept("}")) {
    if (!placements.empty()) {
      cursor.expect(",");
    }
    placements.push_back(Placement::parse(cursor));
    positions.push_back(0);
    if (placements.back().is_shard() && cursor.accept("[")) {
      has_positions = true;
      positions.back() = cursor.integer();
      cursor.expect("]");
    }
  }
  return has_positions ? Layout(placements, positions) : Layout(placements);
}

size_t Layout::hash() const {
  size_t seed = placements_.size();
  for (size_t m = 0; m < placements_.size(); ++m) {
    seed = c10::hash_combine(seed, c10::get_hash(placements_[m].hash(), positions_[m]));
  }
  return seed;
}

std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.to_string();
}

} // namespace weft
