#include "tests/support/layout_cases.h"

#include <algorithm>

namespace weft::testing {

namespace {

/// All shard orders of the mesh dims that shard the same tensor dim.
void add_orders(const Placements& placements, std::vector<Layout>& layouts) {
  std::vector<int64_t> order(placements.size());
  for (size_t m = 0; m < order.size(); ++m) {
    order[m] = static_cast<int64_t>(m);
  }
  do {
    // Placements are added in the order of the permutation, which becomes the shard order.
    auto layout = Layout(Placements(placements.size(), Replicate()));
    for (const auto m : order) {
      layout = layout.with(m, placements[m]);
    }
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) {
      layouts.push_back(layout);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

at::Tensor chunk_or_empty(const at::Tensor& tensor, int64_t ranks, int64_t index, int64_t dim) {
  const auto chunks = tensor.chunk(ranks, dim);
  return index < static_cast<int64_t>(chunks.size()) ? chunks[index] : tensor.narrow(dim, 0, 0);
}

at::Tensor shard_of(const at::Tensor& tensor, const Placement& placement, int64_t ranks, int64_t index) {
  if (placement.is_ragged()) {
    auto rest = tensor;
    for (int64_t i = 0; i < index; ++i) {
      rest = rest.slice(placement.dim(), placement.lengths()[i]);
    }
    return index + 1 == ranks ? rest : rest.slice(placement.dim(), 0, placement.lengths()[index]);
  }
  std::vector<at::Tensor> mine;
  for (int64_t split = 0; split < placement.split_factor(); ++split) {
    const auto outer = chunk_or_empty(tensor, placement.split_factor(), split, placement.dim());
    mine.push_back(chunk_or_empty(outer, ranks, index, placement.dim()));
  }
  return at::cat(mine, placement.dim());
}

at::Tensor additive_term(const at::Tensor& total, int64_t ranks, int64_t index) {
  const auto early_term = [&](int64_t i) { return (total + i + 1) * (i % 2 == 0 ? i + 2 : -(i + 2)); };
  if (index < ranks - 1) {
    return early_term(index);
  }
  auto rest = total.clone();
  for (int64_t i = 0; i < ranks - 1; ++i) {
    rest = rest - early_term(i);
  }
  return rest;
}

at::Tensor term(const at::Tensor& value, ReduceOp op, int64_t ranks, int64_t index) {
  const auto element = at::arange(value.numel(), at::kLong).view(value.sizes());
  const auto is_owner = element.remainder(ranks).eq(index);
  switch (op) {
    case ReduceOp::Sum:
      return additive_term(value, ranks, index);
    case ReduceOp::Avg:
      return additive_term(value * ranks, ranks, index);
    case ReduceOp::Max:
      return at::where(is_owner, value, value - (index + 1));
    case ReduceOp::Min:
      return at::where(is_owner, value, value + (index + 1));
    case ReduceOp::Product: {
      // Every rank but the first changes the sign; the owner makes up for it.
      const auto sign = index == 0 ? 1 : -1;
      const auto total_sign = (ranks - 1) % 2 == 0 ? 1 : -1;
      return at::where(is_owner, value * (sign * total_sign), at::full_like(value, sign));
    }
  }
  return {};
}

} // namespace

std::vector<Placement> all_placements(int64_t tensor_ndim) {
  std::vector<Placement> result = {Replicate()};
  for (int64_t d = 0; d < tensor_ndim; ++d) {
    result.push_back(Shard(d));
    result.push_back(StridedShard(d, 2));
  }
  for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}) {
    result.push_back(Partial(op));
  }
  return result;
}

std::vector<Layout> all_layouts(int64_t mesh_ndim, int64_t tensor_ndim, const std::vector<Placement>& placements) {
  std::vector<Layout> layouts;
  std::vector<size_t> choice(mesh_ndim, 0);
  while (true) {
    Placements chosen;
    for (const auto c : choice) {
      chosen.push_back(placements[c]);
    }
    const bool fits = std::all_of(
        chosen.begin(), chosen.end(), [&](const Placement& p) { return !p.is_shard() || p.dim() < tensor_ndim; });
    if (fits && partials_commute(Layout(chosen))) {
      add_orders(chosen, layouts);
    }
    auto m = mesh_ndim - 1;
    while (m >= 0 && ++choice[m] == placements.size()) {
      choice[m--] = 0;
    }
    if (m < 0) {
      return layouts;
    }
  }
}

std::vector<Layout> all_layouts(
    c10::IntArrayRef mesh_shape,
    int64_t tensor_ndim,
    const std::vector<Placement>& placements) {
  auto layouts = all_layouts(static_cast<int64_t>(mesh_shape.size()), tensor_ndim, placements);
  std::erase_if(layouts, [&](const Layout& layout) {
    for (size_t m = 0; m < mesh_shape.size(); ++m) {
      const auto& placement = layout[static_cast<int64_t>(m)];
      if (placement.is_ragged() && static_cast<int64_t>(placement.lengths().size()) != mesh_shape[m]) {
        return true;
      }
    }
    return false;
  });
  return layouts;
}

at::Tensor local_by_definition(
    const at::Tensor& global,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate) {
  auto local = global;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (layout[m].is_partial()) {
      local = term(local, layout[m].reduce_op(), mesh_shape[m], coordinate[m]);
    }
  }
  for (int64_t d = 0; d < global.dim(); ++d) {
    for (const auto m : layout.shard_order(d)) {
      local = shard_of(local, layout[m], mesh_shape[m], coordinate[m]);
    }
  }
  return local.contiguous();
}

std::vector<at::Tensor> reduce_partials(
    std::vector<at::Tensor> locals,
    const Layout& layout,
    c10::IntArrayRef mesh_shape) {
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (!layout[m].is_partial()) {
      continue;
    }
    std::vector<at::Tensor> reduced;
    for (size_t i = 0; i < locals.size(); ++i) {
      std::vector<at::Tensor> terms;
      const auto own = coordinate_at(static_cast<int64_t>(i), mesh_shape);
      for (size_t j = 0; j < locals.size(); ++j) {
        auto other = coordinate_at(static_cast<int64_t>(j), mesh_shape);
        other[m] = own[m];
        if (other == own) {
          terms.push_back(locals[j]);
        }
      }
      const auto stacked = at::stack(terms);
      switch (layout[m].reduce_op()) {
        case ReduceOp::Sum:
          reduced.push_back(stacked.sum(0));
          break;
        case ReduceOp::Avg:
          reduced.push_back(stacked.mean(0));
          break;
        case ReduceOp::Max:
          reduced.push_back(stacked.amax(0));
          break;
        case ReduceOp::Min:
          reduced.push_back(stacked.amin(0));
          break;
        case ReduceOp::Product:
          reduced.push_back(stacked.prod(0));
          break;
      }
    }
    locals = std::move(reduced);
  }
  return locals;
}

} // namespace weft::testing
