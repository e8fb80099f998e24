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

/// What is put together from operands passes partial values of any operation, if all have them.
Rule put_together(const OpCall& call, Rule rule) {
  if (is_of_one_dtype(call)) {
    rule.linear = {all_operands(call)};
    rule.linear_in_any_op = true;
  }
  return rule;
}

/// The dim along which tensors are joined cannot be cut where their sizes differ; otherwise it becomes one of parts, each
/// cut as the tensors are. One of shape [0] may stand among tensors of any rank.
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
  return put_together(call, std::move(rule));
}

std::optional<Rule> cat_rule(const OpCall& call) {
  return joined_along(call, call.integer("dim"));
}

/// Tensors of fewer dims than they are joined along get some first.
RuleFunction cat_of_rank(int64_t least, int64_t dim) {
  return [least, dim](const OpCall& call) -> std::optional<Rule> {
    const bool has_dims = std::all_of(
        call.operands().begin(), call.operands().end(), [&](const Operand& operand) { return operand.dim() >= least; });
    return has_dims ? joined_along(call, dim) : std::nullopt;
  };
}

/// What has one dim is joined along it, all else along the second.
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

/// A tensor with another one in place of some of its elements. `places` has a dim of the tensor for every dim of the
/// other; the dims that it has alone, or that the other fills in part, must be whole.
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
      rule.whole.push_back(dim[0]);
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
  const auto rank = call.operand(0).dim();
  const auto a = call.wrapped_dim("dim1", rank);
  const auto b = call.wrapped_dim("dim2", rank);
  auto places = natural_order(call);
  places.erase(std::remove_if(places.begin(), places.end(), [&](int64_t d) { return d == a || d == b; }), places.end());
  places.push_back(-1);
  return put_into(call, places);
}

/// A dim that is repeated is one of copies of it: cut, every rank has its part of each copy.
std::optional<Rule> repeat_rule(const OpCall& call) {
  const bool is_tile = call.has("dims"); // as many as there are, counted from the back
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

/// Copies follow each other: cut, every rank has all of those of its part. Without a dim it is repeated as if it had one.
std::optional<Rule> repeat_interleave_rule(const OpCall& call) {
  const auto repeats = call.integer("repeats");
  if (repeats < 1) {
    return std::nullopt; // none, or as many as a tensor says
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
  return with_whole(
      rearranged(call, natural_order(call)), named.empty() ? named : call.reduced_dims("dims", call.operand(0).dim()));
}

/// Without dims it is rolled as if it had one.
Rule roll_rule(const OpCall& call) {
  return with_whole(rearranged(call, natural_order(call)), call.reduced_dims("dims", call.operand(0).dim()));
}

/// By one or three quarters the two dims change places.
Rule rot90_rule(const OpCall& call) {
  const auto dims = call.reduced_dims("dims", call.operand(0).dim());
  auto order = natural_order(call);
  if (call.integer("k", 1) % 2 != 0) {
    std::swap(order[dims[0]], order[dims[1]]);
  }
  return with_whole(rearranged(call, order), dims);
}

/// Triangles need their matrices whole.
Rule triangle_rule(const OpCall& call) {
  const auto rank = call.operand(0).dim();
  return with_whole(rearranged(call, natural_order(call)), {rank - 2, rank - 1});
}

/// Dims that are padded cannot be cut; what they are padded with is no term.
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
  auto rule = with_whole(rearranged(call, order), padded);
  if (call.has("mode") && call.text("mode") != "constant") {
    for (size_t d = 0; d < order.size(); ++d) {
      rule.filled.push_back(rule.inputs[0][d][0]);
    }
    return rule; // with elements of the tensor
  }
  rule.linear_in_any_op = false;
  if (call.number("value", 0) != 0) {
    rule.linear.clear();
  }
  return rule;
}

/// The last dim becomes the diagonal of two new ones.
Rule diag_embed_rule(const OpCall& call) {
  const auto rank = call.operand(0).dim() + 1;
  const auto a = call.wrapped_dim("dim1", rank);
  const auto b = call.wrapped_dim("dim2", rank);
  return with_whole(rearranged(call, order_around(rank, a, b)), {rank - 2});
}

} // namespace

void add_joining_rules(RuleRegistry& registry) {
  registry.add({"cat", "concat", "concatenate"}, cat_rule);
  registry.add({"vstack", "row_stack"}, cat_of_rank(2, 0));
  registry.add({"dstack"}, cat_of_rank(3, 2));
  registry.add({"hstack"}, hstack_rule);
  registry.add({"column_stack"}, cat_of_rank(2, 1));
  registry.add({"stack", "_stack"}, stack_rule);
  registry.add({"slice_scatter"}, of_rank(1, slice_scatter_rule));
  registry.add({"select_scatter"}, of_rank(1, select_scatter_rule));
  registry.add({"diagonal_scatter"}, of_rank(2, diagonal_scatter_rule));
  registry.add({"repeat", "tile"}, repeat_rule);
  registry.add({"repeat_interleave"}, repeat_interleave_rule);
  registry.add({"flip"}, flip_rule);
  registry.add({"roll"}, roll_rule);
  registry.add({"rot90"}, of_rank(2, rot90_rule));
  registry.add({"tril", "triu"}, of_rank(2, triangle_rule));
  registry.add({"constant_pad_nd", "pad"}, pad_rule);
  registry.add({"diag_embed"}, of_rank(1, diag_embed_rule));
}

} // namespace weft
