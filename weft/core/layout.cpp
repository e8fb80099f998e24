#include "weft/core/layout.h"

#include "weft/core/text_cursor.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <ostream>

namespace weft {

Layout::Layout(c10::ArrayRef<Placement> placements) : placements_(placements.begin(), placements.end()) {
  turns_.resize(placements.size(), 0);
  for (size_t m = 0; m < placements_.size(); ++m) {
    for (size_t earlier = 0; placements_[m].is_shard() && earlier < m; ++earlier) {
      turns_[m] += placements_[earlier].is_shard(placements_[m].dim()) ? 1 : 0;
    }
  }
}

Layout::Layout(c10::ArrayRef<Placement> placements, c10::ArrayRef<int64_t> turns) : Layout(placements) {
  TORCH_CHECK_VALUE(
      turns.size() == placements.size(), "[Layout] one turn per mesh dim is required, but got ", turns.size(),
      " turns for ", placements.size(), " placements ", to_string(), ".");
  for (size_t m = 0; m < placements_.size(); ++m) {
    if (placements_[m].is_shard()) {
      turns_[m] = static_cast<int8_t>(turns[m]);
    }
  }
  for (size_t m = 0; m < placements_.size(); ++m) {
    if (!placements_[m].is_shard()) {
      continue;
    }
    int64_t cuts = 0;
    int64_t same_turn = 0;
    for (size_t other = 0; other < placements_.size(); ++other) {
      if (placements_[other].is_shard(placements_[m].dim())) {
        ++cuts;
        same_turn += turns[other] == turns[m] ? 1 : 0;
      }
    }
    TORCH_CHECK_VALUE(
        turns[m] >= 0 && turns[m] < cuts && same_turn == 1, "[Layout] the turns of the ", cuts,
        " mesh dims that cut tensor dim ", placements_[m].dim(), " must be 0 to ", cuts - 1, ", each once, but got ",
        turns, " for ", Layout(placements).to_string(), ".");
  }
}

MeshDims Layout::shard_order(int64_t tensor_dim) const {
  MeshDims order;
  for (int64_t m = 0; m < ndim(); ++m) {
    if (placements_[m].is_shard(tensor_dim)) {
      order.resize(std::max<size_t>(order.size(), turns_[m] + 1));
      order[turns_[m]] = m;
    }
  }
  return order;
}

bool Layout::has_default_order() const {
  return turns_ == Layout(placements_).turns_;
}

bool Layout::has_partial() const {
  return std::any_of(placements_.begin(), placements_.end(), [](const Placement& p) { return p.is_partial(); });
}

bool Layout::has_shard() const {
  return std::any_of(placements_.begin(), placements_.end(), [](const Placement& p) { return p.is_shard(); });
}

Layout Layout::normalized(int64_t tensor_rank) const {
  const auto is_normalized = [&](const Placement& p) { return p.normalized(tensor_rank) == p; };
  if (std::all_of(placements_.begin(), placements_.end(), is_normalized)) {
    return *this;
  }
  Placements placements;
  for (const auto& placement : placements_) {
    placements.push_back(placement.normalized(tensor_rank));
  }
  if (has_default_order()) {
    return Layout(placements);
  }
  return Layout(placements, c10::SmallVector<int64_t, kMaxMeshDims>(turns_.begin(), turns_.end()));
}

void Layout::remove_cut(int64_t mesh_dim) {
  if (!placements_[mesh_dim].is_shard()) {
    return;
  }
  for (int64_t m = 0; m < ndim(); ++m) {
    if (placements_[m].is_shard(placements_[mesh_dim].dim()) && turns_[m] > turns_[mesh_dim]) {
      --turns_[m];
    }
  }
  placements_[mesh_dim] = Replicate();
  turns_[mesh_dim] = 0;
}

Layout Layout::with(int64_t mesh_dim, Placement placement) const {
  Layout result = *this;
  result.remove_cut(mesh_dim);
  for (int64_t m = 0; placement.is_shard() && m < ndim(); ++m) {
    result.turns_[mesh_dim] += result.placements_[m].is_shard(placement.dim()) ? 1 : 0;
  }
  result.placements_[mesh_dim] = placement;
  return result;
}

std::string Layout::to_string() const {
  const bool show_turns = !has_default_order();
  std::string text = "{";
  for (int64_t m = 0; m < ndim(); ++m) {
    text += (m == 0 ? "" : ", ") + placements_[m].to_string();
    if (show_turns && placements_[m].is_shard() && shard_order(placements_[m].dim()).size() > 1) {
      text += "[" + std::to_string(turns_[m]) + "]";
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
  c10::SmallVector<int64_t, kMaxMeshDims> turns;
  bool has_turns = false;
  cursor.expect("{");
  while (!cursor.accept("}")) {
    if (!placements.empty()) {
      cursor.expect(",");
    }
    placements.push_back(Placement::parse(cursor));
    turns.push_back(0);
    if (placements.back().is_shard() && cursor.accept("[")) {
      has_turns = true;
      turns.back() = cursor.integer();
      cursor.expect("]");
    }
  }
  return has_turns ? Layout(placements, turns) : Layout(placements);
}

size_t Layout::hash() const {
  size_t seed = placements_.size();
  for (size_t m = 0; m < placements_.size(); ++m) {
    seed = c10::hash_combine(seed, c10::get_hash(placements_[m].hash(), turns_[m]));
  }
  return seed;
}

std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << layout.to_string();
}

} // namespace weft
