#include "weft/rules/builders.h"
#include "weft/rules/dim_map.h"
#include "weft/rules/registry.h"

#include <c10/core/WrapDimMinimal.h>

#include <functional>
#include <numeric>

namespace weft {

namespace {

/// A tensor in, a tensor out whose dims are some of the input's, in some order; -1 for a dim of its own.
Rule rearranged(const OpCall& call, const std::vector<int64_t>& order) {
  Rule rule;
  rule.inputs.push_back(own_factors(rule, call.operand(0).sizes));
  auto& output = rule.outputs.emplace_back();
  for (const auto d : order) {
    output.push_back(d < 0 ? Rule::Dim{} : rule.inputs[0][d]);
  }
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

std::vector<int64_t> natural_order(const OpCall& call) {
  std::vector<int64_t> order(call.operand(0).sizes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
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

Rule squeeze_rule(const OpCall& call) {
  const auto& sizes = call.operand(0).sizes;
  const auto dims = call.reduced_dims("dim", call.operand(0).dim());
  std::vector<int64_t> order;
  for (int64_t d = 0; d < call.operand(0).dim(); ++d) {
    if (sizes[d] != 1 || std::find(dims.begin(), dims.end(), d) == dims.end()) {
      order.push_back(d);
    }
  }
  return rearranged(call, order);
}

Rule expand_rule(const OpCall& call) {
  const auto rank = static_cast<int64_t>(call.integers("size").size());
  std::vector<int64_t> order;
  for (int64_t d = 0; d < rank; ++d) {
    const auto from = d - (rank - call.operand(0).dim());
    order.push_back(from >= 0 && call.operand(0).sizes[from] != 1 ? from : -1);
  }
  auto rule = rearranged(call, order);
  auto sizes = call.integers("size");
  for (int64_t d = 0; d < rank; ++d) {
    sizes[d] = sizes[d] == -1 ? call.operand(0).sizes[d - (rank - call.operand(0).dim())] : sizes[d];
  }
  rule.size_arguments.push_back({"size", sizes, rule.outputs[0]});
  return rule;
}

std::optional<Rule> view_rule(const OpCall& call) {
  if (!call.has("size") && !call.has("shape")) {
    return std::nullopt; // as another dtype
  }
  const auto& from = call.operand(0).sizes;
  auto to = call.integers(call.has("size") ? "size" : "shape");
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
  rule.size_arguments.push_back({call.has("size") ? "size" : "shape", to, rule.outputs[0]});
  return rule;
}

/// The dim that is picked from must be whole; `keep` says whether it stays.
RuleFunction picking(bool keep) {
  return [keep](const OpCall& call) {
    const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
    auto order = natural_order(call);
    if (keep) {
      order[dim] = -1;
    } else {
      order.erase(order.begin() + dim);
    }
    auto rule = rearranged(call, order);
    rule.whole.push_back(rule.inputs[0][dim][0]);
    return rule;
  };
}

} // namespace

void add_view_rules(RuleRegistry& registry) {
  registry.add({"view", "_unsafe_view", "reshape"}, view_rule);
  registry.add({"t", "transpose"}, transpose_rule);
  registry.add({"permute"}, permute_rule);
  registry.add({"unsqueeze"}, unsqueeze_rule);
  registry.add({"squeeze"}, squeeze_rule);
  registry.add({"expand"}, expand_rule);
  registry.add({"select"}, picking(/*keep=*/false));
  registry.add({"slice"}, picking(/*keep=*/true));
}

} // namespace weft
