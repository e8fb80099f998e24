#include "weft/graph/localize/localize_lookup.h"

#include "weft/core/own_positions.h"
#include "weft/graph/ir/print.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

/// The table with one more row of zeros, for a rank that holds no row, or may hold none: its lookups need a position 0.
Value* with_a_row(GraphBuilder& build, Value* table, int64_t dim) {
  const auto& type = table->tensor();
  auto sizes = type.sizes;
  sizes[dim] = sizes[dim] + Size(1);
  const auto longer = contiguous_type(type.dtype, sizes, type.device);
  if (type.sizes[dim] == Size(0)) {
    return build.call("aten::new_zeros", {table, sizes}, longer);
  }
  Sizes amounts(2 * (type.dim() - dim), Size(0));
  amounts.back() = 1;
  return build.call("aten::constant_pad_nd", {table, amounts}, longer);
}

struct PositionNodes {
  GraphBuilder& build;

  Value* subtract(Value* value, const Size& number) const {
    return build.call("aten::sub.Scalar", {value, number}, value->tensor());
  }
  Value* is_outside(Value* value, const Size& end) const {
    auto mask_type = value->tensor();
    mask_type.dtype = at::kBool;
    auto* below = build.call("aten::lt.Scalar", {value, c10::IValue(0)}, mask_type);
    auto* above = build.call("aten::ge.Scalar", {value, end}, mask_type);
    return build.call("aten::logical_or", {below, above}, mask_type);
  }
  Value* fill(Value* value, Value* mask, int64_t number) const {
    return build.call("aten::masked_fill.Scalar", {value, mask, c10::IValue(number)}, value->tensor());
  }
};

} // namespace

Size looked_up_size(const Node& node, const CallSharding::Lookup& lookup, const TrialValues& values) {
  const auto& size = lookup.masks_output ? node.operand(lookup.table)->tensor().sizes.at(lookup.table_dim)
                                         : node.output()->tensor().sizes.at(0);
  TORCH_CHECK_NOT_IMPLEMENTED(
      values.of(size) == lookup.size, "[localize] ", to_string(node),
      " looks up positions in a dim that must be the first one of its result, but is ", size.to_string(), ".");
  return size;
}

Value* take_own_positions(
    GraphBuilder& build,
    const CallSharding::Lookup& lookup,
    const Size& size,
    const MeshPlace& place,
    std::vector<Value*>& operands) {
  Part held{0, size};
  for (const auto m : lookup.layout.shard_order(0)) {
    const auto shard = chunk(held.length, place.shape[m], place.coordinate[m]);
    held = {held.begin + shard.begin, shard.length};
  }
  auto*& positions = operands[lookup.operand];
  const auto own = own_positions(PositionNodes{build}, positions, held.begin, held.length, size);
  positions = own.positions;
  if (!lookup.masks_output) {
    operands[0] = zero_where(build, operands[0], own.foreign);
  } else if (!held.length.is_number() || held.length.number() == 0) {
    operands[lookup.table] = with_a_row(build, operands[lookup.table], lookup.table_dim);
  }
  return own.foreign;
}

Value* zero_where(GraphBuilder& build, Value* value, Value* mask) {
  while (mask->tensor().dim() < value->tensor().dim()) {
    auto type = mask->tensor();
    type.sizes.emplace_back(1);
    mask = build.call("aten::unsqueeze", {mask, c10::IValue(-1)}, contiguous_type(type.dtype, type.sizes, type.device));
  }
  return PositionNodes{build}.fill(value, mask, 0);
}

} // namespace weft::graph
