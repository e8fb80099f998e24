#include "weft/graph/localize/localize_step.h"
#include "weft/redistribute/transfer.h"

#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>

namespace weft::graph {

namespace {

std::vector<int64_t> numbers(const Sizes& sizes, const Step& step, const DeviceMesh& mesh) {
  std::vector<int64_t> result;
  for (const auto& size : sizes) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        size.is_number(), "[localize] ", step.to_string(mesh), " needs sizes that are numbers, but got ",
        size.to_string(), ". Export the program with a fixed size there.");
    result.push_back(size.number());
  }
  return result;
}

bool has_symbols(const Sizes& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Size& size) { return !size.is_number(); });
}

/// The mesh dims of a step, and those that shard a tensor dim which the step shards or gathers.
MeshDims dims_in_touch(const Step& step) {
  const auto shards_same_dim = [&](int64_t m, int64_t other) {
    for (const auto* a : {&step.before, &step.after}) {
      for (const auto* b : {&step.before, &step.after}) {
        if ((*a)[m].is_shard() && (*b)[other].is_shard((*a)[m].dim())) {
          return true;
        }
      }
    }
    return false;
  };
  MeshDims result;
  for (int64_t m = 0; m < step.before.ndim(); ++m) {
    if (std::any_of(step.mesh_dims.begin(), step.mesh_dims.end(), [&](int64_t other) {
          return m == other || shards_same_dim(m, other);
        })) {
      result.push_back(m);
    }
  }
  return result;
}

/// Calls fn(ranges) for every combination of one range per dim.
template <class Fn>
void for_each_combination(const Box& box, size_t dim, std::vector<Intersection>& ranges, const Fn& fn) {
  if (dim == box.dims.size()) {
    fn(ranges);
    return;
  }
  for (const auto& range : box.dims[dim]) {
    ranges.push_back(range);
    for_each_combination(box, dim + 1, ranges, fn);
    ranges.pop_back();
  }
}

} // namespace

Value* StepLowering::gather_and_slice(const Step& step, Value* local, const Sizes& sizes) {
  auto gathered = step.before;
  Step gathering{StepKind::AllGather, {}, step.before, {}};
  Step slicing{StepKind::Slice, {}, {}, step.after};
  for (const auto m : dims_in_touch(step)) {
    if (step.before[m].is_shard()) {
      gathering.mesh_dims.push_back(m);
      gathered = gathered.with(m, Replicate());
    }
    if (step.after[m].is_shard()) {
      slicing.mesh_dims.push_back(m);
    }
  }
  gathering.after = gathered;
  slicing.before = gathered;
  return joins_adjacent_shards(gathering) && slices_adjacent_shards(slicing)
      ? slice_all(slicing, gather_all(gathering, local, sizes), sizes)
      : nullptr;
}

Value* StepLowering::transfer(const Step& step, Value* local, const Sizes& sizes) {
  if (has_symbols(sizes)) {
    if (auto* moved = gather_and_slice(step, local, sizes)) {
      return moved;
    }
  }
  const auto moved = weft::transfer(step, numbers(sizes, step, mesh_), place_.shape, place_.coordinate);
  const auto& type = local->tensor();
  const auto of_shape = [&](Sizes shape) { return contiguous_type(type.dtype, std::move(shape), type.device); };
  const auto carries = [&](const Box& box) { return box.dims.size() == sizes.size() && !box.is_empty(); };
  const auto take = [&](const Box& box) {
    auto* taken = local;
    for (size_t d = 0; d < box.dims.size(); ++d) {
      std::vector<Value*> slices;
      Size length = 0;
      for (const auto& range : box.dims[d]) {
        slices.push_back(narrow(taken, static_cast<int64_t>(d), range.held_begin, range.length));
        length = length + Size(range.length);
      }
      auto shape = taken->tensor().sizes;
      shape[d] = length;
      taken = slices.size() == 1
          ? slices[0]
          : build_.call("aten::cat", {slices, c10::IValue(static_cast<int64_t>(d))}, of_shape(shape));
    }
    return taken;
  };
  const Sizes shape_after(moved.shape_after.begin(), moved.shape_after.end());
  if (step.kind == StepKind::Slice) {
    if (!carries(moved.sends[0])) {
      return build_.call("aten::new_zeros", {local, shape_after}, of_shape(shape_after));
    }
    auto* kept = take(moved.sends[0]);
    return kept == local ? local : contiguous(kept);
  }

  std::vector<Value*> sent;
  Sizes sent_sizes;
  for (const auto& box : moved.sends) {
    const auto count = carries(box) ? c10::multiply_integers(box.shape()) : 0;
    sent_sizes.emplace_back(count);
    if (count > 0) {
      sent.push_back(build_.call("aten::reshape", {take(box), Sizes{-1}}, of_shape({count})));
    }
  }
  Sizes received_sizes;
  int64_t received = 0;
  for (const auto& box : moved.recvs) {
    received_sizes.emplace_back(carries(box) ? c10::multiply_integers(box.shape()) : 0);
    received += received_sizes.back().number();
  }
  Size total = 0;
  for (const auto& count : sent_sizes) {
    total = total + count;
  }
  auto* packed = sent.empty() ? build_.call("aten::new_zeros", {local, Sizes{0}}, of_shape({0}))
                              : build_.call("aten::cat", {sent, c10::IValue(0)}, of_shape({total}));
  auto* arrived = wait(build_.call(
      "_c10d_functional::all_to_all_single", {packed, received_sizes, sent_sizes, c10::IValue(group(step.mesh_dims))},
      of_shape({received})));
  // The result is made from what arrived even where that is empty, so that the collectives depend on each other in the
  // same way on all ranks.
  auto* result = build_.call("aten::new_zeros", {arrived, shape_after}, of_shape(shape_after));
  int64_t begin = 0;
  for (size_t i = 0; i < moved.recvs.size(); ++i) {
    const auto count = received_sizes[i].number();
    if (count == 0) {
      continue;
    }
    const auto numbers = moved.recvs[i].shape();
    const Sizes shape(numbers.begin(), numbers.end());
    auto* values = build_.call("aten::view", {narrow(arrived, 0, begin, count), shape}, of_shape(shape));
    begin += count;
    std::vector<Intersection> ranges;
    for_each_combination(moved.recvs[i], 0, ranges, [&](const std::vector<Intersection>& chosen) {
      auto* from = values;
      auto* to = result;
      for (size_t d = 0; d < chosen.size(); ++d) {
        from = narrow(from, static_cast<int64_t>(d), chosen[d].held_begin, chosen[d].length);
        to = narrow(to, static_cast<int64_t>(d), chosen[d].wanted_begin, chosen[d].length);
      }
      build_.call("aten::copy_", {to, from}, to->tensor());
    });
  }
  return result;
}

} // namespace weft::graph
