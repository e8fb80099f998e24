#include "weft/core/tensor_spec.h"
#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

namespace weft {

namespace {

bool is_of_one_dtype(const OpCall& call) {
  return std::all_of(call.operands().begin(), call.operands().end(), [&](const Operand& operand) {
    return operand.dtype == call.operand(0).dtype;
  });
}

/// A tensor that is assembled from all operands may be partial with any op, if all operands are.
Rule put_together(const OpCall& call, Rule rule) {
  if (is_of_one_dtype(call)) {
    rule.linear = {all_operands(call)};
    rule.linear_in_any_op = true;
  }
  return rule;
}

bool has_blocks(const Placement& placement, c10::IntArrayRef sizes) {
  const auto blocks = placement.block_sizes();
  if (blocks.size() != sizes.size() || sizes[0] % blocks[0] != 0) {
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != sizes[0] / blocks[0] * blocks[i]) {
      return false;
    }
  }
  return true;
}

/// Shards of tensors of different sizes, joined, are shards of blocks of these sizes, where the program uses such blocks:
/// the gradient of a split.
void add_shards_as_blocks(Rule& rule, const OpCall& call, int64_t dim) {
  const auto* spec = call.operand(0).spec;
  if (spec == nullptr || !spec->mesh().world()) {
    return;
  }
  std::vector<int64_t> sizes;
  for (const auto& operand : call.operands()) {
    sizes.push_back(operand.sizes[dim]);
  }
  for (const auto& used : spec->mesh().world()->unequal_blocks()) {
    if (has_blocks(used, sizes)) {
      rule.listed.push_back({.inputs = std::vector<Placement>(sizes.size(), Shard(dim)), .outputs = {used.along(dim)}});
    }
  }
}

/// The dim along which tensors are joined, if their sizes differ, cannot be sharded but as blocks of these sizes. Otherwise it has two factors: the
/// number of tensors, and the dim of each tensor, which may be sharded. A tensor of shape [0] is allowed among tensors
/// of any ndim.
std::optional<Rule> joined_along(const OpCall& call, int64_t dim) {
  const auto is_skipped = [](const Operand& operand) { return operand.sizes == c10::IntArrayRef({0}); };
  const auto shaped = std::find_if_not(call.operands().begin(), call.operands().end(), is_skipped);
  if (shaped == call.operands().end() || shaped->dim() == 0) {
    return std::nullopt;
  }
  Rule rule;
  auto dims = own_factors(rule, shaped->sizes);
  dim = c10::maybe_wrap_dim(dim, shaped->dim());
  const auto is_alike = [&](const Operand& operand) { return operand.sizes == shaped->sizes; };
  const bool is_even = std::all_of(call.operands().begin(), call.operands().end(), is_alike);
  if (!is_even) {
    dims[dim] = {};
  }
  for (const auto& operand : call.operands()) {
    if (operand.sizes.size() != dims.size() && !is_skipped(operand)) {
      return std::nullopt;
    }
    rule.inputs.push_back(is_skipped(operand) ? Rule::Dims(1) : dims);
  }
  if (is_even && call.operands().size() > 1) {
    dims[dim].insert(dims[dim].begin(), rule.add_factor(static_cast<int64_t>(call.operands().size())));
  }
  rule.outputs.push_back(dims);
  if (!is_even && std::none_of(call.operands().begin(), call.operands().end(), is_skipped)) {
    add_shards_as_blocks(rule, call, dim);
  }
  return put_together(call, std::move(rule));
}

std::optional<Rule> cat_rule(const OpCall& call) {
  return joined_along(call, call.integer("dim"));
}

/// Tensors with fewer dims than needed are unsqueezed first by the operator.
RuleFunction cat_of_ndim(int64_t least, int64_t dim) {
  return [least, dim](const OpCall& call) -> std::optional<Rule> {
    const bool has_dims = std::all_of(
        call.operands().begin(), call.operands().end(), [&](const Operand& operand) { return operand.dim() >= least; });
    return has_dims ? joined_along(call, dim) : std::nullopt;
  };
}

/// Tensors of one dim are joined along it, all others along the second dim.
std::optional<Rule> hstack_rule(const OpCall& call) {
  return joined_along(call, call.operand(0).dim() == 1 ? 0 : 1);
}

std::optional<Rule> stack_rule(const OpCall& call) {
  for (const auto& operand : call.operands()) {
    if (operand.sizes != call.operand(0).sizes) {
      return std::nullopt;
    }
  }
  Rule rule;
  auto dims = own_factors(rule, call.operand(0).sizes);
  rule.inputs.assign(call.operands().size(), dims);
  dims.insert(dims.begin() + call.wrapped_dim("dim", call.operand(0).dim() + 1), Rule::Dim{});
  rule.outputs.push_back(dims);
  return put_together(call, std::move(rule));
}

/// A tensor with some of its elements replaced by another tensor. `places` has the dim of the first tensor for every
/// dim of the second; dims that only the first has, or that the second does not fill, must not be sharded.
std::optional<Rule> put_into(const OpCall& call, const std::vector<int64_t>& places) {
  if (call.operand(1).sizes.size() != places.size()) {
    return std::nullopt;
  }
  Rule rule;
  const auto dims = own_factors(rule, call.operand(0).sizes);
  auto& other = rule.inputs.emplace_back();
  for (const auto d : places) {
    other.push_back(d < 0 ? Rule::Dim{} : dims[d]);
  }
  for (const auto& dim : dims) {
    if (!Rule::has(other, dim[0])) {
      rule.unsharded.push_back(dim[0]);
    }
  }
  rule.inputs.insert(rule.inputs.begin(), dims);
  rule.outputs.push_back(dims);
  return put_together(call, std::move(rule));
}

std::optional<Rule> slice_scatter_rule(const OpCall& call) {
  auto places = natural_order(call);
  places[call.wrapped_dim("dim", call.operand(0).dim())] = -1;
  return put_into(call, places);
}

std::optional<Rule> select_scatter_rule(const OpCall& call) {
  auto places = natural_order(call);
  places.erase(places.begin() + call.wrapped_dim("dim", call.operand(0).dim()));
  return put_into(call, places);
}

std::optional<Rule> diagonal_scatter_rule(const OpCall& call) {
  const auto ndim = call.operand(0).dim();
  const auto a = call.wrapped_dim("dim1", ndim);
  const auto b = call.wrapped_dim("dim2", ndim);
  auto places = natural_order(call);
  places.erase(std::remove_if(places.begin(), places.end(), [&](int64_t d) { return d == a || d == b; }), places.end());
  places.push_back(-1);
  return put_into(call, places);
}

/// A repeated dim has two factors: the copies, and the original dim. If the latter is sharded, every rank holds its
/// shard of each copy.
std::optional<Rule> repeat_rule(const OpCall& call) {
  const bool is_tile = call.has("dims"); // `dims` may be shorter than the shape: they are aligned with the last dims
  auto repeats = call.integers(is_tile ? "dims" : "repeats");
  if (is_tile && repeats.size() < call.operand(0).sizes.size()) {
    repeats.insert(repeats.begin(), call.operand(0).sizes.size() - repeats.size(), 1);
  }
  if (std::find(repeats.begin(), repeats.end(), 0) != repeats.end()) {
    return std::nullopt;
  }
  Rule rule;
  const auto dims = own_factors(rule, call.operand(0).sizes);
  const auto added = static_cast<int64_t>(repeats.size()) - call.operand(0).dim();
  auto& output = rule.outputs.emplace_back();
  for (size_t d = 0; d < repeats.size(); ++d) {
    const auto from = static_cast<int64_t>(d) - added;
    auto& dim = output.emplace_back();
    if (repeats[d] != 1 || from < 0) {
      dim.push_back(rule.add_factor(repeats[d]));
    }
    if (from >= 0) {
      dim.push_back(dims[from][0]);
    }
  }
  rule.inputs.push_back(dims);
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

/// The copies of an element are consecutive: if the dim is sharded, every rank holds all copies of its shard. Without a
/// dim the operator repeats the flattened tensor.
std::optional<Rule> repeat_interleave_rule(const OpCall& call) {
  const auto repeats = call.integer("repeats");
  if (repeats < 1) {
    return std::nullopt; // no copies, or a tensor of counts
  }
  auto rule = rearranged(call, natural_order(call));
  const auto copies = rule.add_factor(repeats);
  auto& output = rule.outputs[0];
  if (!call.has("dim")) {
    Rule::Dim all;
    for (const auto& dim : output) {
      all.push_back(dim[0]);
    }
    output = {all};
  }
  auto& dim = output[call.has("dim") ? call.wrapped_dim("dim", call.operand(0).dim()) : 0];
  dim.push_back(copies);
  if (call.has("output_size")) {
    rule.size_arguments.push_back({"output_size", {rule.size_of(dim)}, {dim}});
  }
  return rule;
}

Rule flip_rule(const OpCall& call) {
  const auto named = call.integers("dims");
  return with_unsharded(
      rearranged(call, natural_order(call)), named.empty() ? named : call.reduced_dims("dims", call.operand(0).dim()));
}

/// Without dims the operator rolls the flattened tensor.
Rule roll_rule(const OpCall& call) {
  return with_unsharded(rearranged(call, natural_order(call)), call.reduced_dims("dims", call.operand(0).dim()));
}

/// After one or three quarter rotations the two dims have changed places.
Rule rot90_rule(const OpCall& call) {
  const auto dims = call.reduced_dims("dims", call.operand(0).dim());
  auto order = natural_order(call);
  if (call.integer("k", 1) % 2 != 0) {
    std::swap(order[dims[0]], order[dims[1]]);
  }
  return with_unsharded(rearranged(call, order), dims);
}

/// Triangles depend on the global row and column, so the matrix dims must not be sharded.
Rule triangle_rule(const OpCall& call) {
  const auto ndim = call.operand(0).dim();
  return with_unsharded(rearranged(call, natural_order(call)), {ndim - 2, ndim - 1});
}

/// Padded dims cannot be sharded. A nonzero padding value would be added once per rank, so then the input must not be
/// partial.
Rule pad_rule(const OpCall& call) {
  const auto pad = call.integers("pad");
  auto order = natural_order(call);
  std::vector<int64_t> padded;
  for (size_t i = 0; 2 * i + 1 < pad.size() && i < order.size(); ++i) {
    if (pad[2 * i] != 0 || pad[2 * i + 1] != 0) {
      padded.push_back(static_cast<int64_t>(order.size() - 1 - i));
    }
  }
  for (const auto d : padded) {
    order[d] = -1;
  }
  auto rule = with_unsharded(rearranged(call, order), padded);
  if (call.has("mode") && call.text("mode") != "constant") {
    for (size_t d = 0; d < order.size(); ++d) {
      rule.filled.push_back(rule.inputs[0][d][0]);
    }
    return rule; // the padding consists of elements of the tensor
  }
  rule.linear_in_any_op = false;
  if (call.number("value", 0) != 0) {
    rule.linear.clear();
  }
  return rule;
}

/// The last dim becomes the diagonal of two new dims.
Rule diag_embed_rule(const OpCall& call) {
  const auto ndim = call.operand(0).dim() + 1;
  const auto a = call.wrapped_dim("dim1", ndim);
  const auto b = call.wrapped_dim("dim2", ndim);
  return with_unsharded(rearranged(call, order_around(ndim, a, b)), {ndim - 2});
}

} // namespace

void add_joining_rules(RuleRegistry& registry) {
  registry.add({"cat", "concat", "concatenate"}, cat_rule);
  registry.add({"vstack", "row_stack"}, cat_of_ndim(2, 0));
  registry.add({"dstack"}, cat_of_ndim(3, 2));
  registry.add({"hstack"}, hstack_rule);
  registry.add({"column_stack"}, cat_of_ndim(2, 1));
  registry.add({"stack", "_stack"}, stack_rule);
  registry.add({"slice_scatter"}, of_ndim(1, slice_scatter_rule));
  registry.add({"select_scatter"}, of_ndim(1, select_scatter_rule));
  registry.add({"diagonal_scatter"}, of_ndim(2, diagonal_scatter_rule));
  registry.add({"repeat", "tile"}, repeat_rule);
  registry.add({"repeat_interleave"}, repeat_interleave_rule);
  registry.add({"flip"}, flip_rule);
  registry.add({"roll"}, roll_rule);
  registry.add({"rot90"}, of_ndim(2, rot90_rule));
  registry.add({"tril", "triu"}, of_ndim(2, triangle_rule));
  registry.add({"constant_pad_nd", "pad"}, pad_rule);
  registry.add({"diag_embed"}, of_ndim(1, diag_embed_rule));
}

} // namespace weft
