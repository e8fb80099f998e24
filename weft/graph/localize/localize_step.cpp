#include "weft/graph/localize/localize_step.h"

#include "weft/core/layout_algebra.h"
#include "weft/redistribute/transfer.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace weft::graph {

namespace {

TensorType with_size(const TensorType& type, int64_t tensor_dim, const Size& size) {
  auto sizes = type.sizes;
  sizes[tensor_dim] = size;
  return contiguous_type(type.dtype, std::move(sizes), type.device);
}

std::string reduce_text(ReduceOp op) {
  return op == ReduceOp::Avg ? "sum" : std::string(to_string(op));
}

/// The length of each of `count` equal chunks of a size.
Size equal_length(const Size& size, int64_t count) {
  return quotient(size, count).value_or(floor_divide(size, count));
}

/// Whether a mesh dim is the last one in the shard order of its tensor dim, and its shards are plain.
bool is_innermost(const Layout& layout, int64_t mesh_dim) {
  const auto& placement = layout[mesh_dim];
  return placement.is_plain_shard() && layout.shard_order(placement.dim()).back() == mesh_dim;
}

/// The step with Replicate on mesh dims of one rank, where a shard is the full tensor. A step that reduces keeps
/// Partial.
Step without_single_ranks(Step step, c10::IntArrayRef mesh_shape) {
  const bool reduces = step.kind == StepKind::ReduceScatter || step.kind == StepKind::AllReduce;
  for (auto* layout : {&step.before, &step.after}) {
    *layout = replicated_where(
        *layout, [&](int64_t m) { return mesh_shape[m] == 1 && !(reduces && (*layout)[m].is_partial()); });
  }
  return step;
}

/// The one tensor dim that a step has as StridedShard, before or after, and the number of its blocks; nullopt where
/// there is none, or where another mesh dim shards the same dim in another way.
struct Blocks {
  int64_t tensor_dim;
  int64_t count;
};
std::optional<Blocks> strided_blocks(const Step& step) {
  std::optional<Blocks> found;
  const auto agrees = [&](const Placement& placement) {
    if (!placement.is_shard() || (found && placement.dim() != found->tensor_dim)) {
      return true;
    }
    return found && !placement.has_unequal_blocks() && !placement.is_ragged() &&
        placement.split_factor() == found->count;
  };
  for (const auto m : step.mesh_dims) {
    for (const auto* layout : {&step.before, &step.after}) {
      if ((*layout)[m].is_strided() && !found) {
        found = Blocks{(*layout)[m].dim(), (*layout)[m].split_factor()};
      }
    }
  }
  for (int64_t m = 0; found && m < step.before.ndim(); ++m) {
    if (!agrees(step.before[m]) || !agrees(step.after[m])) {
      return std::nullopt;
    }
  }
  return found;
}

/// The layout of the tensor in which the blocks of a dim are a dim of their own, before that dim.
Layout with_blocks_apart(const Layout& layout, const Blocks& blocks) {
  return map_shards(layout, [&](const Placement& p) {
    return p.dim() < blocks.tensor_dim ? p : p.is_shard(blocks.tensor_dim) ? Shard(p.dim() + 1) : p.along(p.dim() + 1);
  });
}

/// The mesh dims of a step in reverse shard order.
MeshDims innermost_first(const Step& step) {
  auto dims = step.mesh_dims;
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) {
    return step.before.shard_position(a) > step.before.shard_position(b);
  });
  return dims;
}
MeshDims outermost_first(const Step& step) {
  auto dims = step.mesh_dims;
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) {
    return step.after.shard_position(a) < step.after.shard_position(b);
  });
  return dims;
}

} // namespace

std::string StepLowering::group(c10::IntArrayRef mesh_dims) const {
  const auto text = mesh_.dims_text(mesh_dims);
  const auto named = group_names_.find(text);
  return named == group_names_.end() ? text : named->second;
}

Value* StepLowering::wait(Value* pending) {
  return build_.call("_c10d_functional::wait_tensor", {pending}, pending->tensor());
}

Value* StepLowering::narrow(Value* local, int64_t tensor_dim, const Size& begin, const Size& length) {
  if (local->tensor().sizes[tensor_dim] == length) {
    return local;
  }
  auto type = with_size(local->tensor(), tensor_dim, length);
  type.strides = local->tensor().strides;
  return build_.call("aten::slice.Tensor", {local, c10::IValue(tensor_dim), begin, begin + length}, std::move(type));
}

Value* StepLowering::pad(Value* local, int64_t tensor_dim, const Size& length) {
  const auto& size = local->tensor().sizes[tensor_dim];
  if (size == length) {
    return local;
  }
  // Pairs of before and after, the last dim first.
  Sizes amounts(2 * (local->tensor().dim() - tensor_dim), Size(0));
  amounts.back() = length - size;
  return build_.call("aten::constant_pad_nd", {local, amounts}, with_size(local->tensor(), tensor_dim, length));
}

Value* StepLowering::contiguous(Value* local) {
  const auto& type = local->tensor();
  return build_.call(
      "aten::clone", {local, c10::IValue(at::MemoryFormat::Contiguous)},
      contiguous_type(type.dtype, type.sizes, type.device));
}

Value* StepLowering::split_and_join(Value* local, int64_t from_dim, int64_t to_dim, int64_t count) {
  if (from_dim == to_dim || count == 1) {
    return local;
  }
  const auto& type = local->tensor();
  const auto length = equal_length(type.sizes[from_dim], count);
  auto chunk_type = with_size(type, from_dim, length);
  // split.Tensor would give one chunk instead of `count` if the chunks are empty, or may be when the program runs.
  const bool may_be_empty = !length.is_number() || length.number() == 0;
  const auto chunks = build_.list(
      may_be_empty ? "aten::split_with_sizes" : "aten::split.Tensor",
      {local, may_be_empty ? GraphBuilder::Argument(Sizes(count, length)) : GraphBuilder::Argument(length),
       c10::IValue(from_dim)},
      std::vector<TensorType>(count, chunk_type));
  return build_.call(
      "aten::cat", {chunks, c10::IValue(to_dim)},
      with_size(chunk_type, to_dim, chunk_type.sizes[to_dim] * Size(count)));
}

Size StepLowering::length_before(const Layout& before, int64_t mesh_dim, int64_t tensor_dim, const Sizes& sizes) const {
  return local_size(sizes[tensor_dim], tensor_dim, before.with(mesh_dim, Replicate()), place_);
}

Value* StepLowering::reduced(ReduceOp op, int64_t ranks, Value* local, const Reduction& reduction) {
  const auto dtype = local->tensor().dtype;
  if (op != ReduceOp::Avg) {
    return wait(reduction(local));
  }
  TORCH_CHECK_TYPE(
      c10::isFloatingType(dtype) || c10::isComplexType(dtype),
      "[localize] an average needs a floating point or complex dtype, but got ", dtype,
      ". Reduce by sum, or convert first.");
  const auto divided = [&](Value* value) {
    return build_.call("aten::div.Scalar", {value, c10::IValue(ranks)}, value->tensor());
  };
  // The sum of several terms may be too large for 16 bits where their average is not.
  return dtype == at::kHalf ? wait(reduction(divided(local))) : divided(wait(reduction(local)));
}

Value* StepLowering::all_reduce(const Step& step, Value* local) {
  auto op = step.before[step.mesh_dims[0]].reduce_op();
  int64_t averaged = 1;
  for (const auto m : step.mesh_dims) {
    const bool is_average = step.before[m].reduce_op() == ReduceOp::Avg;
    averaged *= is_average ? place_.shape[m] : 1;
    op = is_average ? ReduceOp::Avg : op;
  }
  return reduced(op, averaged, local, [&](Value* value) {
    const auto& type = value->tensor();
    return build_.call(
        "_c10d_functional::all_reduce", {value, c10::IValue(reduce_text(op)), c10::IValue(group(step.mesh_dims))},
        contiguous_type(type.dtype, type.sizes, type.device));
  });
}

Value* StepLowering::make_partial(const Step& step, Value* local) {
  for (const auto m : step.mesh_dims) {
    const auto op = step.after[m].reduce_op();
    if (place_.coordinate[m] != 0 && (op == ReduceOp::Sum || op == ReduceOp::Product)) {
      return build_.call(op == ReduceOp::Sum ? "aten::zeros_like" : "aten::ones_like", {local}, local->tensor());
    }
  }
  return local;
}

Value* StepLowering::reduce_scatter(const Step& step, Value* local, const Sizes& sizes) {
  const bool is_plain = std::all_of(
      step.mesh_dims.begin(), step.mesh_dims.end(), [&](int64_t m) { return step.after[m].is_plain_shard(); });
  if (!is_plain) {
    // No collective scatters strided or ragged shards.
    auto reduced = step.before;
    for (const auto m : step.mesh_dims) {
      reduced = reduced.with(m, Replicate());
    }
    return transfer({StepKind::Slice, step.mesh_dims, reduced, step.after}, all_reduce(step, local), sizes);
  }
  auto layout = step.before;
  for (const auto m : outermost_first(step)) {
    const auto op = step.before[m].reduce_op();
    const auto tensor_dim = step.after[m].dim();
    const auto ranks = place_.shape[m];
    if (ranks == 1) {
      layout = layout.with(m, step.after[m]);
      continue;
    }
    const auto length = length_before(layout, m, tensor_dim, sizes);
    const auto most = chunk_length(length, ranks);
    auto* padded = pad(local, tensor_dim, most * Size(ranks));
    auto* joined = split_and_join(padded, tensor_dim, 0, ranks);
    const auto type =
        with_size(joined->tensor(), 0, tensor_dim == 0 ? most : equal_length(joined->tensor().sizes[0], ranks));
    local = reduced(op, ranks, joined, [&](Value* value) {
      return build_.call(
          "_c10d_functional::reduce_scatter_tensor",
          {value, c10::IValue(reduce_text(op)), c10::IValue(ranks), c10::IValue(group({m}))}, type);
    });
    local = narrow(local, tensor_dim, 0, chunk(length, ranks, place_.coordinate[m]).length);
    layout = layout.with(m, step.after[m]);
  }
  return local;
}

Value* StepLowering::gather(Value* local, const Layout& before, int64_t mesh_dim, const Sizes& sizes) {
  const auto tensor_dim = before[mesh_dim].dim();
  const auto ranks = place_.shape[mesh_dim];
  const auto length = length_before(before, mesh_dim, tensor_dim, sizes);
  auto* padded = pad(local, tensor_dim, chunk_length(length, ranks));
  const auto& type = padded->tensor();
  auto* gathered = wait(build_.call(
      "_c10d_functional::all_gather_into_tensor", {padded, c10::IValue(ranks), c10::IValue(group({mesh_dim}))},
      with_size(type, 0, type.sizes[0] * Size(ranks))));
  auto* joined = split_and_join(gathered, 0, tensor_dim, ranks);
  // torch.chunk leaves only the last shards short or empty, so that all padding is at the end.
  auto* full = narrow(joined, tensor_dim, 0, length);
  return full == joined || tensor_dim == 0 ? full : contiguous(full);
}

Value* StepLowering::slice(
    Value* local,
    const Layout& before,
    int64_t mesh_dim,
    int64_t tensor_dim,
    const Sizes& sizes) {
  const auto length = length_before(before, mesh_dim, tensor_dim, sizes);
  const auto own = chunk(length, place_.shape[mesh_dim], place_.coordinate[mesh_dim]);
  auto* kept = narrow(local, tensor_dim, own.begin, own.length);
  return kept == local ? local : contiguous(kept);
}

Value* StepLowering::exchange(
    Value* local,
    const Layout& before,
    int64_t mesh_dim,
    int64_t to_dim,
    const Sizes& sizes) {
  const auto from_dim = before[mesh_dim].dim();
  const auto ranks = place_.shape[mesh_dim];
  const auto from_length = length_before(before, mesh_dim, from_dim, sizes);
  const auto to_length = length_before(before, mesh_dim, to_dim, sizes);
  auto* padded = pad(local, from_dim, chunk_length(from_length, ranks));
  padded = pad(padded, to_dim, chunk_length(to_length, ranks) * Size(ranks));
  auto* joined = split_and_join(padded, to_dim, 0, ranks);
  const Sizes lengths(ranks, equal_length(joined->tensor().sizes[0], ranks));
  auto* arrived = wait(build_.call(
      "_c10d_functional::all_to_all_single", {joined, lengths, lengths, c10::IValue(group({mesh_dim}))},
      joined->tensor()));
  auto* gathered = split_and_join(arrived, 0, from_dim, ranks);
  gathered = narrow(gathered, from_dim, 0, from_length);
  const auto own = chunk(to_length, ranks, place_.coordinate[mesh_dim]);
  auto* kept = narrow(gathered, to_dim, 0, own.length);
  return kept == arrived ? kept : contiguous(kept);
}

Value* StepLowering::unfolded(const Step& step, Value* local, const Sizes& sizes) {
  const auto blocks = strided_blocks(step);
  if (!blocks) {
    return nullptr;
  }
  const auto d = blocks->tensor_dim;
  const auto count = written_out(blocks->count, place_.stand_ins);
  const auto length = quotient(sizes[d], count);
  if (!length) {
    return nullptr;
  }
  auto apart = sizes;
  apart[d] = count;
  apart.insert(apart.begin() + d + 1, *length);
  const Step plain{
      step.kind, step.mesh_dims, with_blocks_apart(step.before, *blocks), with_blocks_apart(step.after, *blocks)};
  const auto& type = local->tensor();
  const auto reshaped = [&](Value* value, const Sizes& shape) {
    return build_.call("aten::reshape", {value, shape}, contiguous_type(type.dtype, shape, type.device));
  };
  auto* opened = reshaped(local, local_sizes(apart, plain.before, place_));
  return reshaped(lower(plain, opened, apart), local_sizes(sizes, step.after, place_));
}

Value* StepLowering::lower(const Step& given, Value* local, const Sizes& sizes) {
  const auto step = without_single_ranks(given, place_.shape);
  // A tensor without elements needs no collective. An empty local tensor does: it may be empty on some ranks only, and
  // all ranks have to make the same collectives, also because bucket_collectives merges those of several steps.
  if (std::any_of(sizes.begin(), sizes.end(), [](const Size& size) { return size == Size(0); })) {
    const auto after = local_sizes(sizes, step.after, place_);
    return build_.call(
        "aten::new_zeros", {local, after}, contiguous_type(local->tensor().dtype, after, local->tensor().device));
  }
  if (step.kind == StepKind::AllReduce) {
    return all_reduce(step, local);
  }
  if (step.kind == StepKind::MakePartial) {
    return make_partial(step, local);
  }
  if (auto* strided = unfolded(step, local, sizes)) {
    return strided;
  }
  if (step.kind == StepKind::ReduceScatter) {
    return reduce_scatter(step, local, sizes);
  }
  if (step.kind == StepKind::AllGather && joins_adjacent_shards(step)) {
    return gather_all(step, local, sizes);
  }
  if (step.kind == StepKind::Slice && slices_adjacent_shards(step)) {
    return slice_all(step, local, sizes);
  }
  const auto m = step.mesh_dims[0];
  const bool is_exchange = step.mesh_dims.size() == 1 && step.before[m].is_shard() && step.after[m].is_shard() &&
      step.before[m].dim() != step.after[m].dim() && is_innermost(step.before, m) && is_innermost(step.after, m) &&
      step.before.with(m, step.after[m]) == step.after;
  return is_exchange ? exchange(local, step.before, m, step.after[m].dim(), sizes) : transfer(step, local, sizes);
}

bool StepLowering::joins_adjacent_shards(const Step& step) const {
  auto layout = step.before;
  for (const auto m : innermost_first(step)) {
    if (place_.shape[m] > 1 && !(is_innermost(layout, m) && step.after[m].is_replicate())) {
      return false;
    }
    layout = layout.with(m, Replicate());
  }
  return true;
}

Value* StepLowering::gather_all(const Step& step, Value* local, const Sizes& sizes) {
  auto layout = step.before;
  for (const auto m : innermost_first(step)) {
    local = place_.shape[m] == 1 ? local : gather(local, layout, m, sizes);
    layout = layout.with(m, Replicate());
  }
  return local;
}

bool StepLowering::slices_adjacent_shards(const Step& step) const {
  auto layout = step.before;
  for (const auto m : outermost_first(step)) {
    const auto next = layout.with(m, step.after[m]);
    if (place_.shape[m] > 1 && !(layout[m].is_replicate() && is_innermost(next, m))) {
      return false;
    }
    layout = next;
  }
  return layout == step.after || mesh_.ndim() == 1;
}

Value* StepLowering::slice_all(const Step& step, Value* local, const Sizes& sizes) {
  auto layout = step.before;
  for (const auto m : outermost_first(step)) {
    local = place_.shape[m] == 1 ? local : slice(local, layout, m, step.after[m].dim(), sizes);
    layout = layout.with(m, step.after[m]);
  }
  return local;
}

} // namespace weft::graph
