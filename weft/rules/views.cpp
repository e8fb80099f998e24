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

/// In-place forms of these change the shape of what they are stored in, which a rule cannot say.
RuleFunction functional(const RuleFunction& rule) {
  return [rule](const OpCall& call) { return call.schema().name().ends_with('_') ? std::nullopt : rule(call); };
}

/// A tensor without dims has none that could be picked from; what it is called with raises as it does locally.
RuleFunction of_dims(const RuleFunction& rule) {
  return [rule](const OpCall& call) { return call.operand(0).dim() == 0 ? std::nullopt : rule(call); };
}

Rule transpose_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto rank = static_cast<int64_t>(order.size());
  if (rank > 1) {
    const auto a = call.has("dim0") ? call.wrapped_dim("dim0", rank) : 0;
    const auto b = call.has("dim1") ? call.wrapped_dim("dim1", rank) : 1;
    std::swap(order[a], order[b]);
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

/// A dim that is longer than one stays, though a rank may hold one element of it alone: what is squeezed locally must be
/// named, or the dim whole.
Rule squeeze_rule(const OpCall& call) {
  const auto& sizes = call.operand(0).sizes;
  const bool names_dims = call.has("dim");
  const auto named = names_dims && call.integers("dim").empty() ? std::vector<int64_t>()
                                                                : call.reduced_dims("dim", call.operand(0).dim());
  std::vector<int64_t> kept;
  std::vector<int64_t> squeezed;
  std::vector<int64_t> whole;
  for (int64_t d = 0; d < call.operand(0).dim(); ++d) {
    const bool is_named = std::find(named.begin(), named.end(), d) != named.end();
    if (is_named && sizes[d] == 1) {
      squeezed.push_back(d);
      continue;
    }
    kept.push_back(d);
    if (is_named) {
      whole.push_back(d);
    }
  }
  auto rule = rearranged(call, kept);
  if (!call.schema().overload_name().starts_with("dims")) {
    return with_whole(std::move(rule), whole);
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

/// Bits are read as another dtype: all dims pass where that has as many of them, all but the last where not.
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
  return is_same_size || last < 0 ? rule : with_whole(std::move(rule), {last});
}

Rule view_rule(const OpCall& call) {
  if (call.has("dtype")) {
    return dtype_rule(call);
  }
  const auto& from = call.operand(0).sizes;
  auto to = call.integers("size");
  const auto elements = std::accumulate(from.begin(), from.end(), int64_t{1}, std::multiplies<>());
  const auto known = std::accumulate(to.begin(), to.end(), int64_t{1}, std::multiplies<>());
  for (auto& size : to) {
    size = size == -1 ? (known == 0 ? 0 : elements / -known) : size;
  }
  Rule rule;
  auto map = map_dims(rule, from, to);
  rule.inputs.push_back(std::move(map.from));
  rule.outputs.push_back(std::move(map.to));
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  rule.size_arguments.push_back({"size", to, rule.outputs[0]});
  return rule;
}

Rule view_as_real_rule(const OpCall& call) {
  auto order = natural_order(call);
  order.push_back(-1);
  return rearranged(call, order);
}

Rule view_as_complex_rule(const OpCall& call) {
  auto order = natural_order(call);
  order.pop_back();
  return with_whole(rearranged(call, order), {static_cast<int64_t>(order.size())});
}

Rule select_rule(const OpCall& call) {
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  auto order = natural_order(call);
  order.erase(order.begin() + dim);
  return with_whole(rearranged(call, order), {dim});
}

/// Whether a slice leaves nothing of a dim of this size out.
bool takes_all(const OpCall& call, int64_t size) {
  const auto start = call.integer("start", 0);
  return (start == 0 || start <= -size) && call.integer("end", std::numeric_limits<int64_t>::max()) >= size &&
      call.integer("step", 1) == 1;
}

Rule slice_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  if (takes_all(call, call.operand(0).sizes[dim])) {
    return rearranged(call, order);
  }
  order[dim] = -1;
  return with_whole(rearranged(call, order), {dim});
}

Rule narrow_copy_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  order[dim] = -1;
  return with_whole(rearranged(call, order), {dim});
}

/// Every part has the dims of the whole but for the one that is split.
Rule split_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  const auto size = call.operand(0).sizes[dim];
  const auto step = std::max<int64_t>(call.integer("split_size", 1), 1);
  const auto parts = std::max<int64_t>((size + step - 1) / step, 1);
  if (size != parts * step) {
    order[dim] = -1;
    auto rule = with_whole(rearranged(call, order), {dim});
    rule.outputs.resize(parts, Rule::Dims(rule.outputs[0]));
    return rule;
  }
  // Of equal parts each may be cut. A rank that held nothing of them would split nothing into one.
  auto rule = rearranged(call, order);
  const auto inside = rule.inputs[0][dim][0];
  const auto part = rule.add_factor(parts);
  rule.sizes[inside] = step;
  rule.filled.push_back(inside);
  rule.whole.push_back(part);
  rule.inputs[0][dim] = {part, inside};
  rule.outputs.resize(parts, Rule::Dims(rule.outputs[0]));
  rule.size_arguments.push_back({"split_size", {step}, {{inside}}});
  return rule;
}

Rule split_with_sizes_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  order[dim] = -1;
  auto rule = with_whole(rearranged(call, order), {dim});
  rule.outputs.resize(call.integers("split_sizes").size(), Rule::Dims(rule.outputs[0]));
  return rule;
}

Rule unbind_rule(const OpCall& call) {
  auto rule = select_rule(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  rule.outputs.assign(call.operand(0).sizes[dim], Rule::Dims(rule.outputs[0]));
  return rule;
}

/// The dims that a diagonal is not of, then the diagonal.
Rule diagonal_rule(const OpCall& call) {
  const auto rank = call.operand(0).dim();
  const auto a = call.wrapped_dim("dim1", rank);
  const auto b = call.wrapped_dim("dim2", rank);
  auto order = natural_order(call);
  order.erase(std::remove_if(order.begin(), order.end(), [&](int64_t d) { return d == a || d == b; }), order.end());
  order.push_back(-1);
  return with_whole(rearranged(call, order), {a, b});
}

Rule unfold_rule(const OpCall& call) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dimension", call.operand(0).dim());
  order[dim] = -1;
  order.push_back(-1);
  return with_whole(rearranged(call, order), {dim});
}

/// The gradient of a view that left something out: its dims are put where they came from, in a tensor of zeros.
/// `places` has a dim of the gradient for every dim of that tensor, -1 for one that was not passed on.
Rule put_back(const OpCall& call, const std::vector<int64_t>& places) {
  auto rule = rearranged(call, places);
  for (size_t d = 0; d < rule.inputs[0].size(); ++d) {
    const auto factor = rule.inputs[0][d][0];
    if (rule.is_reduced(factor)) {
      rule.whole.push_back(factor);
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
  const auto rank = call.operand(0).dim() + 1;
  const auto a = call.wrapped_dim("dim1", rank);
  const auto b = call.wrapped_dim("dim2", rank);
  std::vector<int64_t> places;
  int64_t passed = 0;
  for (int64_t d = 0; d < rank; ++d) {
    places.push_back(d == a || d == b ? -1 : passed++);
  }
  return put_back(call, places);
}

/// Windows overlap and are added: sums alone pass.
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
  registry.add({"view", "view_copy", "_unsafe_view"}, view_rule);
  registry.add({"view_as_real", "view_as_real_copy"}, view_as_real_rule);
  registry.add({"view_as_complex", "view_as_complex_copy"}, of_dims(view_as_complex_rule));
  registry.add({"t", "t_copy", "transpose", "transpose_copy"}, functional(transpose_rule));
  registry.add({"permute", "permute_copy"}, permute_rule);
  registry.add({"unsqueeze", "unsqueeze_copy"}, functional(unsqueeze_rule));
  registry.add({"squeeze", "squeeze_copy"}, functional(squeeze_rule));
  registry.add({"expand", "expand_copy"}, expand_rule);
  registry.add({"select", "select_copy"}, of_dims(select_rule));
  registry.add({"slice", "slice_copy"}, of_dims(slice_rule));
  registry.add({"narrow_copy"}, of_dims(narrow_copy_rule));
  registry.add({"split", "split_copy", "unsafe_split"}, of_dims(split_rule));
  registry.add(
      {"split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes"}, of_dims(split_with_sizes_rule));
  registry.add({"unbind", "unbind_copy"}, of_dims(unbind_rule));
  registry.add({"diagonal", "diagonal_copy"}, diagonal_rule);
  registry.add({"unfold", "unfold_copy"}, of_dims(unfold_rule));
  registry.add({"slice_backward"}, of_dims(slice_backward_rule));
  registry.add({"select_backward"}, select_backward_rule);
  registry.add({"diagonal_backward"}, diagonal_backward_rule);
  registry.add({"unfold_backward"}, unfold_backward_rule);
}

} // namespace weft
