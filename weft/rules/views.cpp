#include "weft/core/shard_math.h"
#include "weft/core/tensor_spec.h"
#include "weft/rules/builders.h"
#include "weft/rules/dim_map.h"
#include "weft/rules/registry.h"

#include <c10/core/ScalarType.h>
#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace weft {

namespace {

/// The in-place forms of these change the shape of the tensor that they are called on, which a rule cannot express.
RuleFunction functional(const RuleFunction& rule) {
  return [rule](const OpCall& call) { return call.schema().name().ends_with('_') ? std::nullopt : rule(call); };
}

/// Two dims change places: those that the arguments name, or the first two.
RuleFunction transposed(std::string_view first, std::string_view second) {
  return [first = std::string(first), second = std::string(second)](const OpCall& call) {
    auto order = natural_order(call);
    const auto ndim = static_cast<int64_t>(order.size());
    if (ndim > 1) {
      const auto a = call.has(first) ? call.wrapped_dim(first, ndim) : 0;
      const auto b = call.has(second) ? call.wrapped_dim(second, ndim) : 1;
      std::swap(order[a], order[b]);
    }
    return rearranged(call, order);
  };
}

Rule matrix_transpose_rule(const OpCall& call) {
  auto order = natural_order(call);
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return rearranged(call, order);
}

Rule reverse_dims_rule(const OpCall& call) {
  auto order = natural_order(call);
  std::reverse(order.begin(), order.end());
  return rearranged(call, order);
}

/// Dims that are not moved keep their order.
Rule movedim_rule(const OpCall& call) {
  const auto source = call.reduced_dims("source", call.operand(0).dim());
  const auto destination = call.reduced_dims("destination", call.operand(0).dim());
  auto stays = natural_order(call);
  std::vector<int64_t> order(stays.size(), -1);
  for (size_t i = 0; i < source.size(); ++i) {
    order[destination[i]] = source[i];
    std::erase(stays, source[i]);
  }
  auto next = stays.begin();
  for (auto& dim : order) {
    dim = dim == -1 ? *next++ : dim;
  }
  return rearranged(call, order);
}

Rule permute_rule(const OpCall& call) {
  return rearranged(call, call.reduced_dims("dims", call.operand(0).dim()));
}

Rule unsqueeze_rule(const OpCall& call) {
  auto order = natural_order(call);
  order.insert(order.begin() + call.wrapped_dim("dim", call.operand(0).dim() + 1), -1);
  return rearranged(call, order);
}

/// squeeze() keeps a dim of global size greater than one, although its local size may be one. So the local call must
/// name the squeezed dims, or the dim must not be sharded.
Rule squeeze_rule(const OpCall& call) {
  const auto& sizes = call.operand(0).sizes;
  const bool names_dims = call.has("dim");
  const auto named = names_dims && call.integers("dim").empty() ? std::vector<int64_t>()
                                                                : call.reduced_dims("dim", call.operand(0).dim());
  std::vector<int64_t> kept;
  std::vector<int64_t> squeezed;
  std::vector<int64_t> unsharded;
  for (int64_t d = 0; d < call.operand(0).dim(); ++d) {
    const bool is_named = std::find(named.begin(), named.end(), d) != named.end();
    if (is_named && sizes[d] == 1) {
      squeezed.push_back(d);
      continue;
    }
    kept.push_back(d);
    if (is_named) {
      unsharded.push_back(d);
    }
  }
  auto rule = rearranged(call, kept);
  if (!call.schema().overload_name().starts_with("dims")) {
    return with_unsharded(std::move(rule), unsharded);
  }
  rule.size_arguments.push_back({"dim", squeezed, Rule::Dims(squeezed.size())});
  return rule;
}

Rule expand_rule(const OpCall& call) {
  auto sizes = call.integers("size");
  std::vector<int64_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto from = static_cast<int64_t>(d) - (static_cast<int64_t>(sizes.size()) - call.operand(0).dim());
    order.push_back(from >= 0 && call.operand(0).sizes[from] != 1 ? from : -1);
    sizes[d] = sizes[d] == -1 && from >= 0 ? call.operand(0).sizes[from] : sizes[d];
  }
  auto rule = rearranged(call, order);
  rule.size_arguments.push_back({"size", sizes, rule.outputs[0]});
  return rule;
}

/// Expands to the shape of another tensor, whose values are not read: it is sharded as the result is.
std::optional<Rule> expand_as_rule(const OpCall& call) {
  if (call.operand(0).dim() > call.operand(1).dim()) {
    return std::nullopt;
  }
  Rule rule;
  const auto other = own_factors(rule, call.operand(1).sizes);
  std::vector<Rule::Factor> factors;
  for (const auto& dim : other) {
    factors.push_back(dim[0]);
  }
  rule.inputs = {broadcast_dims(rule, factors, call.operand(0).sizes), other};
  rule.outputs = {other};
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  rule.unread = {1};
  return rule;
}

/// Reads the bits as another dtype. All dims pass if both dtypes have the same size, otherwise all but the last.
Rule dtype_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dtype = call.operand(0).dtype;
  const auto last = static_cast<int64_t>(order.size()) - 1;
  const bool is_same_size = c10::elementSize(dtype) == c10::elementSize(call.dtype("dtype", dtype));
  if (!is_same_size && last >= 0) {
    order[last] = -1;
  }
  auto rule = rearranged(call, order);
  rule.linear.clear();
  return is_same_size || last < 0 ? rule : with_unsharded(std::move(rule), {last});
}

int64_t product(c10::IntArrayRef sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Replaces a size of -1 by the size that the other sizes leave.
std::vector<int64_t> with_open_size(std::vector<int64_t> sizes, c10::IntArrayRef of) {
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  if (open != sizes.end()) {
    const auto known = -product(sizes);
    *open = known == 0 ? 0 : product(of) / known;
  }
  return sizes;
}

/// The elements in the same order, in another shape.
Rule viewed(const OpCall& call, c10::IntArrayRef to) {
  Rule rule;
  auto map = map_dims(rule, call.operand(0).sizes, to);
  rule.inputs.push_back(std::move(map.from));
  rule.outputs.push_back(std::move(map.to));
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

Rule view_rule(const OpCall& call) {
  if (call.has("dtype")) {
    return dtype_rule(call);
  }
  const auto* argument = call.has("shape") ? "shape" : "size";
  const auto to = with_open_size(call.integers(argument), call.operand(0).sizes);
  auto rule = viewed(call, to);
  rule.size_arguments.push_back({argument, to, rule.outputs[0]});
  return rule;
}

/// Consecutive dims become one. The local call flattens the local dims in the same way.
Rule flatten_rule(const OpCall& call) {
  const auto& sizes = call.operand(0).sizes;
  if (sizes.empty()) {
    return viewed(call, {1});
  }
  const auto first = call.wrapped_dim("start_dim", call.operand(0).dim());
  const auto last = c10::maybe_wrap_dim(call.integer("end_dim", -1), call.operand(0).dim());
  auto to = sizes.slice(0, first).vec();
  to.push_back(product(sizes.slice(first, last + 1 - first)));
  to.insert(to.end(), sizes.begin() + last + 1, sizes.end());
  return viewed(call, to);
}

Rule unflatten_rule(const OpCall& call) {
  const auto& from = call.operand(0).sizes;
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  const auto split = with_open_size(call.integers("sizes"), from.slice(dim, 1));
  auto to = from.slice(0, dim).vec();
  to.insert(to.end(), split.begin(), split.end());
  to.insert(to.end(), from.begin() + dim + 1, from.end());
  auto rule = viewed(call, to);
  const auto* dims = rule.outputs[0].begin() + dim;
  rule.size_arguments.push_back({"sizes", split, Rule::Dims(dims, dims + split.size())});
  return rule;
}

/// Views as the shape of another tensor, whose values are not read: it is sharded as the result is.
Rule view_as_rule(const OpCall& call) {
  auto rule = viewed(call, call.operand(1).sizes);
  rule.inputs.push_back(rule.outputs[0]);
  rule.unread = {1};
  return rule;
}

/// Sums of complex numbers are those of their two parts. Products are not, and complex numbers have no maximum.
Rule by_parts(Rule rule) {
  rule.linear_in_any_op = false;
  return rule;
}

Rule view_as_real_rule(const OpCall& call) {
  auto order = natural_order(call);
  order.push_back(-1);
  return by_parts(rearranged(call, order));
}

Rule view_as_complex_rule(const OpCall& call) {
  auto order = natural_order(call);
  order.pop_back();
  return by_parts(with_unsharded(rearranged(call, order), {static_cast<int64_t>(order.size())}));
}

Rule select_rule(const OpCall& call) {
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  auto order = natural_order(call);
  order.erase(order.begin() + dim);
  return with_unsharded(rearranged(call, order), {dim});
}

/// Whether a slice keeps all of a dim of this size.
bool takes_all(const OpCall& call, int64_t size) {
  const auto start = call.integer("start", 0);
  return (start == 0 || start <= -size) && call.integer("end", std::numeric_limits<int64_t>::max()) >= size &&
      call.integer("step", 1) == 1;
}

/// The indices that a slice without steps takes of a dim of this size.
Run taken_by_slice(const OpCall& call, int64_t size) {
  const auto position = [&](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); };
  const auto begin = position(call.integer("start", 0));
  const auto end = position(call.integer("end", std::numeric_limits<int64_t>::max()));
  return {begin, std::max<int64_t>(end - begin, 0)};
}

/// The shard of a slice that takes some of the blocks, all of each; empty if it takes others.
std::optional<Placement> shard_of_blocks(const Placement& placement, int64_t size, Run taken) {
  std::vector<int64_t> sizes;
  int64_t begin = -1;
  for (const auto& block : blocks(size, placement)) {
    if (block.begin >= taken.begin && block.begin + block.length <= taken.begin + taken.length) {
      begin = sizes.empty() ? block.begin : begin;
      sizes.push_back(block.length);
    }
  }
  const auto length = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  const bool is_exact = !sizes.empty() && begin == taken.begin && length == taken.length && length > 0;
  return is_exact ? std::optional(StridedShard(placement.dim(), sizes)) : std::nullopt;
}

/// A slice that takes blocks of a shard takes a rank's shards of those blocks, without the others: the queries of a layer that
/// computes queries, keys and values at once. Which blocks there are, only the layout tells.
void add_slices_of_blocks(Rule& rule, const OpCall& call, int64_t dim) {
  const auto& self = call.operand(0);
  if (self.spec == nullptr || call.integer("step", 1) != 1) {
    return;
  }
  const auto taken = taken_by_slice(call, self.sizes[dim]);
  for (const auto& placement : self.spec->placements()) {
    if (!placement.is_shard(dim) || !placement.is_strided()) {
      continue;
    }
    if (const auto shard = shard_of_blocks(placement, self.sizes[dim], taken)) {
      rule.listed.push_back({.inputs = {placement}, .outputs = {*shard}, .divides_sizes = true});
    }
  }
  if (!rule.listed.empty()) {
    rule.size_arguments = {{"start", {taken.begin}, {{}}}, {"end", {taken.begin + taken.length}, {{}}}};
  }
}

Rule slice_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  if (takes_all(call, call.operand(0).sizes[dim])) {
    return rearranged(call, order);
  }
  order[dim] = -1;
  auto rule = with_unsharded(rearranged(call, order), {dim});
  add_slices_of_blocks(rule, call, dim);
  return rule;
}

std::optional<Rule> narrow_rule(const OpCall& call) {
  if (call.operand_of("start")) {
    return std::nullopt;
  }
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  order[dim] = -1;
  return with_unsharded(rearranged(call, order), {dim});
}

Rule unbind_rule(const OpCall& call) {
  auto rule = select_rule(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  rule.outputs.assign(call.operand(0).sizes[dim], Rule::Dims(rule.outputs[0]));
  return rule;
}

/// The dims outside the diagonal, then the diagonal.
Rule diagonal_rule(const OpCall& call) {
  const auto ndim = call.operand(0).dim();
  const auto a = call.wrapped_dim("dim1", ndim);
  const auto b = call.wrapped_dim("dim2", ndim);
  auto order = natural_order(call);
  order.erase(std::remove_if(order.begin(), order.end(), [&](int64_t d) { return d == a || d == b; }), order.end());
  order.push_back(-1);
  return with_unsharded(rearranged(call, order), {a, b});
}

Rule unfold_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dimension", call.operand(0).dim());
  order[dim] = -1;
  order.push_back(-1);
  return with_unsharded(rearranged(call, order), {dim});
}

/// The gradient of a view that left elements out: the dims of the gradient are put back into a tensor of zeros.
/// `places` has the dim of the gradient for every dim of that tensor, or -1 for a dim that the gradient does not have.
Rule put_back(const OpCall& call, const std::vector<int64_t>& places) {
  auto rule = rearranged(call, places);
  for (size_t d = 0; d < rule.inputs[0].size(); ++d) {
    const auto factor = rule.inputs[0][d][0];
    if (rule.is_reduced(factor)) {
      rule.unsharded.push_back(factor);
    }
  }
  rule.size_arguments.push_back({"input_sizes", call.integers("input_sizes"), rule.outputs[0]});
  return rule;
}

Rule slice_backward_rule(const OpCall& call) {
  auto places = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  if (!takes_all(call, call.integers("input_sizes")[dim])) {
    places[dim] = -1;
  }
  return put_back(call, places);
}

Rule select_backward_rule(const OpCall& call) {
  auto places = natural_order(call);
  places.insert(places.begin() + call.wrapped_dim("dim", call.operand(0).dim() + 1), -1);
  return put_back(call, places);
}

Rule diagonal_backward_rule(const OpCall& call) {
  const auto ndim = call.operand(0).dim() + 1;
  const auto a = call.wrapped_dim("dim1", ndim);
  const auto b = call.wrapped_dim("dim2", ndim);
  return put_back(call, order_around(ndim, a, b));
}

/// Windows that overlap are added, so only sums and averages may be partial.
std::optional<Rule> unfold_backward_rule(const OpCall& call) {
  auto places = natural_order(call);
  if (call.integers("input_sizes").empty()) {
    return std::nullopt;
  }
  places.pop_back();
  places[call.wrapped_dim("dim", static_cast<int64_t>(places.size()))] = -1;
  auto rule = put_back(call, places);
  rule.linear_in_any_op = false;
  return rule;
}

} // namespace

void add_view_rules(RuleRegistry& registry) {
  registry.add({"view", "view_copy", "_unsafe_view", "reshape"}, view_rule);
  registry.add({"flatten", "ravel"}, flatten_rule);
  registry.add({"unflatten"}, of_ndim(1, unflatten_rule));
  registry.add({"view_as", "reshape_as"}, view_as_rule);
  registry.add({"view_as_real", "view_as_real_copy"}, view_as_real_rule);
  registry.add({"view_as_complex", "view_as_complex_copy"}, of_ndim(1, view_as_complex_rule));
  registry.add({"t", "t_copy", "transpose", "transpose_copy", "swapdims"}, functional(transposed("dim0", "dim1")));
  registry.add({"swapaxes"}, functional(transposed("axis0", "axis1")));
  registry.add({"mT", "mH", "matrix_H", "adjoint"}, of_ndim(2, matrix_transpose_rule));
  registry.add({"numpy_T"}, reverse_dims_rule);
  registry.add({"permute", "permute_copy"}, permute_rule);
  registry.add({"movedim", "moveaxis"}, of_ndim(1, movedim_rule));
  registry.add({"unsqueeze", "unsqueeze_copy"}, functional(unsqueeze_rule));
  registry.add({"squeeze", "squeeze_copy"}, functional(squeeze_rule));
  registry.add({"expand", "expand_copy", "broadcast_to"}, expand_rule);
  registry.add({"expand_as"}, expand_as_rule);
  registry.add({"select", "select_copy"}, of_ndim(1, select_rule));
  registry.add({"slice", "slice_copy"}, of_ndim(1, slice_rule));
  registry.add({"narrow", "narrow_copy"}, of_ndim(1, narrow_rule));
  registry.add({"unbind", "unbind_copy"}, of_ndim(1, unbind_rule));
  registry.add({"diagonal", "diagonal_copy"}, diagonal_rule);
  registry.add({"unfold", "unfold_copy"}, of_ndim(1, unfold_rule));
  registry.add({"slice_backward"}, of_ndim(1, slice_backward_rule));
  registry.add({"select_backward"}, select_backward_rule);
  registry.add({"diagonal_backward"}, diagonal_backward_rule);
  registry.add({"unfold_backward"}, unfold_backward_rule);
}

} // namespace weft
