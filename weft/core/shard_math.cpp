#include "weft/core/shard_math.h"

#include <algorithm>
#include <numeric>

namespace weft {

namespace {

int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t total_length(const Runs& runs) {
  int64_t total = 0;
  for (const auto& run : runs) {
    total += run.length;
  }
  return total;
}

void append(Runs& runs, Run run) {
  if (run.length == 0) {
    return;
  }
  if (!runs.empty() && runs.back().begin + runs.back().length == run.begin) {
    runs.back().length += run.length;
  } else {
    runs.push_back(run);
  }
}

/// Appends to `result` the indices of `runs` at the local positions `positions`.
void append_at(Runs& result, const Runs& runs, Run positions) {
  int64_t position = 0;
  for (const auto& run : runs) {
    const auto begin = std::max(positions.begin, position);
    const auto end = std::min(positions.begin + positions.length, position + run.length);
    if (begin < end) {
      append(result, {run.begin + begin - position, end - begin});
    }
    position += run.length;
  }
}

/// The global index at a local position. The position may be one past the end, which is where an empty shard begins.
int64_t index_at(const Runs& runs, int64_t position) {
  for (const auto& run : runs) {
    if (position < run.length) {
      return run.begin + position;
    }
    position -= run.length;
  }
  return runs.back().begin + runs.back().length;
}

/// The range of member `index` under a ragged shard of `length` indices.
Run ragged_range(int64_t length, const Placement& placement, int64_t index) {
  const auto lengths = placement.lengths();
  const auto before = std::accumulate(lengths.begin(), lengths.begin() + index, int64_t{0});
  const auto begin = std::min(before, length);
  const bool is_last = index + 1 == static_cast<int64_t>(lengths.size());
  return {begin, is_last ? length - begin : std::min(lengths[index], length - begin)};
}

Runs shard(const Runs& runs, int64_t ranks, int64_t index, const Placement& placement) {
  Runs result;
  if (placement.is_ragged()) {
    TORCH_INTERNAL_ASSERT(
        static_cast<int64_t>(placement.lengths().size()) == ranks, placement, " on ", ranks, " ranks");
    const auto own = ragged_range(total_length(runs), placement, index);
    append_at(result, runs, own);
    if (result.empty()) {
      result.push_back({index_at(runs, own.begin), 0});
    }
    return result;
  }
  const auto all = blocks(total_length(runs), placement);
  for (const auto& block : all) {
    const auto inner = chunk(block.length, ranks, index);
    append_at(result, runs, {block.begin + inner.begin, inner.length});
  }
  if (result.empty()) {
    const auto first = chunk(all[0].length, ranks, index);
    result.push_back({index_at(runs, first.begin), 0});
  }
  return result;
}

} // namespace

Run chunk(int64_t length, int64_t count, int64_t index) {
  const auto full = ceil_divide(length, count);
  const auto begin = std::min(index * full, length);
  return {begin, std::min(full, length - begin)};
}

Runs blocks(int64_t length, const Placement& placement) {
  Runs result;
  if (!placement.has_unequal_blocks()) {
    for (int64_t i = 0; i < placement.split_factor(); ++i) {
      result.push_back(chunk(length, placement.split_factor(), i));
    }
    return result;
  }
  const auto sizes = placement.block_sizes();
  const auto all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  int64_t passed = 0;
  int64_t begin = 0;
  for (const auto size : sizes) {
    passed += size;
    const auto end = static_cast<int64_t>(static_cast<__int128>(length) * passed / all);
    result.push_back({begin, end - begin});
    begin = end;
  }
  return result;
}

bool divides_blocks(int64_t length, int64_t ranks, const Placement& placement) {
  if (placement.is_ragged()) {
    return false;
  }
  int64_t units = placement.split_factor();
  if (placement.has_unequal_blocks()) {
    const auto sizes = placement.block_sizes();
    units = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  }
  const auto all = blocks(length, placement);
  return length % units == 0 &&
      std::all_of(all.begin(), all.end(), [&](const Run& block) { return block.length % ranks == 0; });
}

Runs local_runs(
    int64_t size,
    int64_t tensor_dim,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate) {
  Runs runs = {Run{0, size}};
  for (const auto m : layout.shard_order(tensor_dim)) {
    runs = shard(runs, mesh_shape[m], coordinate[m], layout[m]);
  }
  return runs;
}

LocalBlock local_shape_and_offset(
    c10::IntArrayRef sizes,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate) {
  LocalBlock block;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto runs = local_runs(sizes[d], static_cast<int64_t>(d), layout, mesh_shape, coordinate);
    block.shape.push_back(total_length(runs));
    block.offset.push_back(runs.front().begin);
  }
  return block;
}

c10::DimVector largest_local_shape(c10::IntArrayRef sizes, const Layout& layout, c10::IntArrayRef mesh_shape) {
  // torch.chunk makes no later chunk longer than the first; of a ragged shard every member is looked at.
  c10::SmallVector<int64_t, kMaxMeshDims> coordinate(mesh_shape.size(), 0);
  auto largest = local_shape_and_offset(sizes, layout, mesh_shape, coordinate).shape;
  for (int64_t m = layout.ndim() - 1; m >= 0;) {
    if (!layout[m].is_ragged() || ++coordinate[m] == mesh_shape[m]) {
      coordinate[m--] = 0;
      continue;
    }
    const auto shape = local_shape_and_offset(sizes, layout, mesh_shape, coordinate).shape;
    std::transform(shape.begin(), shape.end(), largest.begin(), largest.begin(), [](int64_t a, int64_t b) {
      return std::max(a, b);
    });
    m = layout.ndim() - 1;
  }
  return largest;
}

c10::SmallVector<Intersection, 1> intersect(const Runs& held, const Runs& wanted) {
  c10::SmallVector<Intersection, 1> result;
  int64_t wanted_position = 0;
  for (const auto& want : wanted) {
    int64_t held_position = 0;
    for (const auto& have : held) {
      const auto begin = std::max(have.begin, want.begin);
      const auto end = std::min(have.begin + have.length, want.begin + want.length);
      if (begin < end) {
        result.push_back({held_position + begin - have.begin, wanted_position + begin - want.begin, end - begin});
      }
      held_position += have.length;
    }
    wanted_position += want.length;
  }
  return result;
}

} // namespace weft
