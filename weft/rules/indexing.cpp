#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

#include <c10/util/accumulate.h>

#include <algorithm>

namespace weft {

namespace {

/// Bools are excluded, because adding them saturates.
bool is_number(const Operand& operand) {
  return operand.dtype != c10::kBool;
}

/// The index has a factor of its own, which replaces the dim that is indexed. That dim must not be sharded, unless it
/// is the first: then each rank contributes the rows that it holds.
std::optional<Rule> index_select_rule(const OpCall& call) {
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  if (call.operand(0).dim() == 0) {
    return std::nullopt;
  }
  auto rule = rearranged(call, natural_order(call));
  rule.inputs.push_back(own_factors(rule, call.operand(1).sizes));
  rule.outputs[0][dim] = call.operand(1).dim() == 0 ? Rule::Dim{} : rule.inputs[1][0];
  const auto picked = rule.inputs[0][dim][0];
  if (dim == 0 && call.operand(1).dim() == 1 && is_number(call.operand(0))) {
    rule.lookup = Rule::Lookup{1, picked};
    rule.filled.push_back(picked);
  } else {
    rule.unsharded.push_back(picked);
  }
  return rule;
}

/// The common rule of gather and scatter: tensors of the same ndim, of which the first may be longer than the others.
/// The index selects positions along `dim`. Other dims are matched position by position, so they pass if all tensors
/// have the same size.
struct Aligned {
  Rule rule; // without outputs
  Rule::Factor along;
};
std::optional<Aligned> aligned(const OpCall& call) {
  const auto ndim = call.operand(0).dim();
  const auto tensors = call.operands();
  if (ndim == 0 || std::any_of(tensors.begin(), tensors.end(), [&](const Operand& t) { return t.dim() != ndim; })) {
    return std::nullopt;
  }
  const auto dim = call.wrapped_dim("dim", ndim);
  Aligned result;
  auto& rule = result.rule;
  rule.inputs.resize(tensors.size());
  result.along = rule.add_factor(call.operand(1).sizes[dim]);
  for (int64_t d = 0; d < ndim; ++d) {
    const auto size = call.operand(0).sizes[d];
    const bool passes =
        d != dim && std::all_of(tensors.begin(), tensors.end(), [&](const Operand& t) { return t.sizes[d] == size; });
    const auto shared = passes ? Rule::Dim{rule.add_factor(size)} : Rule::Dim{};
    for (size_t i = 0; i < tensors.size(); ++i) {
      const bool is_indexed = d == dim && i > 0 && tensors[i].sizes[d] == rule.sizes[result.along];
      rule.inputs[i].push_back(is_indexed ? Rule::Dim{result.along} : shared);
    }
  }
  return result;
}

std::optional<Rule> picked_along_dim(const OpCall& call) {
  auto found = aligned(call);
  if (!found) {
    return std::nullopt;
  }
  auto& rule = found->rule;
  rule.outputs.push_back(rule.inputs[1]);
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

/// The dim that is indexed may be sharded if no more elements are picked than there are: then each rank contributes the
/// elements that it holds, and the result is no larger than what would have to be gathered.
std::optional<Rule> gather_rule(const OpCall& call) {
  auto rule = picked_along_dim(call);
  const auto& self = call.operand(0);
  if (rule && is_number(self) && c10::multiply_integers(call.operand(1).sizes) <= c10::multiply_integers(self.sizes)) {
    const auto dim = call.wrapped_dim("dim", self.dim());
    const auto picked = rule->add_factor(self.sizes[dim]);
    rule->inputs[0][dim] = {picked};
    rule->lookup = Rule::Lookup{1, picked};
    rule->filled.push_back(picked);
  }
  return rule;
}

/// As gather. Without a dim the operator indexes the flattened tensor, which has no rule.
std::optional<Rule> take_along_dim_rule(const OpCall& call) {
  return call.has("dim") ? picked_along_dim(call) : std::nullopt;
}

/// Every number becomes a one-hot vector, whose length must be given.
std::optional<Rule> one_hot_rule(const OpCall& call) {
  if (call.integer("num_classes", -1) < 0) {
    return std::nullopt;
  }
  auto rule = pointwise()(call);
  rule->outputs[0].emplace_back();
  return rule;
}

/// Later writes may overwrite earlier ones, so the index must not be sharded.
std::optional<Rule> scatter_rule(const OpCall& call) {
  auto found = aligned(call);
  if (!found) {
    return std::nullopt;
  }
  found->rule.outputs.push_back(found->rule.inputs[0]);
  found->rule.unsharded.push_back(found->along);
  return found->rule;
}

/// Shards of the index give terms of a sum, so the index may be sharded.
std::optional<Rule> scatter_add_rule(const OpCall& call) {
  auto rule = scatter_rule(call);
  if (!rule || !is_number(call.operand(0))) {
    return rule;
  }
  if (call.operand(1).sizes == call.operand(2).sizes) {
    rule->unsharded.clear();
    rule->added = {0};
  }
  rule->linear = {{0, 2}};
  return rule;
}

/// self, index, source: the source has the dims of `self`, except that it has the size of the index along `dim`.
std::optional<Rule> index_into_rule(const OpCall& call) {
  const auto ndim = call.operand(0).dim();
  const auto source = call.operand_of("source");
  if (ndim == 0 || call.operand(1).dim() > 1 || (source && call.operand(*source).dim() != ndim)) {
    return std::nullopt;
  }
  const auto dim = call.wrapped_dim("dim", ndim);
  Rule rule;
  auto dims = own_factors(rule, call.operand(0).sizes);
  rule.inputs.push_back(dims);
  rule.outputs.push_back(dims);
  rule.unsharded.push_back(dims[dim][0]);
  const auto index = own_factors(rule, call.operand(1).sizes);
  rule.inputs.push_back(index);
  if (!index.empty()) {
    rule.unsharded.push_back(index[0][0]);
  }
  if (source) {
    dims[dim] = index.empty() ? Rule::Dim{} : index[0];
    rule.inputs.push_back(dims);
  } else if (call.operands().size() > 2) {
    rule.inputs.emplace_back(); // the value of index_fill, a 0-dim tensor
  }
  return rule;
}

std::optional<Rule> index_add_rule(const OpCall& call) {
  auto rule = index_into_rule(call);
  if (rule && is_number(call.operand(0))) {
    rule->unsharded.resize(1); // shards of the index give terms of a sum
    rule->added = {0};
    rule->linear = {{0, 2}};
  }
  return rule;
}

/// Every index is looked up on its own, in the full `self`.
Rule take_rule(const OpCall& call) {
  Rule rule;
  rule.inputs.emplace_back(call.operand(0).dim());
  rule.inputs.push_back(own_factors(rule, call.operand(1).sizes));
  rule.outputs.push_back(rule.inputs[1]);
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

/// self[indices]: the indexed dims must not be sharded. The indices broadcast, and their dims replace the indexed dims,
/// or come first if other dims are between the indexed ones.
struct Indexed {
  Rule rule; // with self and the indices as inputs
  Rule::Dims result;
  std::vector<Rule::Factor> indices;
};
std::optional<Indexed> indexed(const OpCall& call) {
  const auto places = call.present("indices");
  const auto range = call.operands_of("indices");
  const auto tensors = call.operands().slice(range.begin, range.count);
  const auto is_mask = [](const Operand& t) { return t.dtype == c10::kBool || t.dtype == c10::kByte; };
  if (places.empty() || places.back() >= call.operand(0).dim() ||
      std::any_of(tensors.begin(), tensors.end(), is_mask)) {
    return std::nullopt; // a mask gives a number of elements that depends on its values
  }
  Indexed found;
  found.rule = pointwise()(call.with(tensors)).value();
  const auto broadcast = found.rule.outputs[0];
  found.rule.outputs.clear();
  for (const auto& dim : broadcast) {
    found.indices.push_back(dim[0]);
  }
  const auto self = own_factors(found.rule, call.operand(0).sizes);
  found.rule.inputs.insert(found.rule.inputs.begin(), self);
  const bool is_adjacent = places.back() - places.front() + 1 == static_cast<int64_t>(places.size());
  for (size_t d = 0; d < self.size(); ++d) {
    if (std::find(places.begin(), places.end(), static_cast<int64_t>(d)) != places.end()) {
      found.rule.unsharded.push_back(self[d][0]);
    } else {
      found.result.push_back(self[d]);
    }
  }
  found.result.insert(found.result.begin() + (is_adjacent ? places.front() : 0), broadcast.begin(), broadcast.end());
  return found;
}

std::optional<Rule> index_rule(const OpCall& call) {
  auto found = indexed(call);
  if (!found) {
    return std::nullopt;
  }
  found->rule.outputs.push_back(found->result);
  found->rule.linear = {{0}};
  found->rule.linear_in_any_op = true;
  return found->rule;
}

/// The values broadcast against self[indices]. With accumulate, shards of the index give terms of a sum; otherwise
/// later writes may replace earlier ones, so the index must not be sharded. Of two values for one position ranks could keep
/// different ones, but if there is one position, every element is one of self or of the values: both may be partial.
std::optional<Rule> index_put_rule(const OpCall& call) {
  auto found = indexed(call);
  const auto values = call.operand_of("values");
  if (!found || !values || call.operand(*values).sizes.size() > found->result.size()) {
    return std::nullopt;
  }
  auto& rule = found->rule;
  std::vector<Rule::Factor> factors;
  for (const auto& dim : found->result) {
    factors.push_back(dim[0]);
  }
  rule.inputs.push_back(broadcast_dims(rule, factors, call.operand(*values).sizes));
  rule.outputs.push_back(rule.inputs[0]);
  if (call.boolean("accumulate") && is_number(call.operand(0))) {
    rule.added = {0};
    rule.linear = {{0, *values}};
  } else {
    rule.unsharded.insert(rule.unsharded.end(), found->indices.begin(), found->indices.end());
    if (rule.size_of(Rule::Dim(found->indices.begin(), found->indices.end())) == 1) {
      rule.linear = {{0, *values}};
      rule.linear_in_any_op = true;
    }
  }
  return rule;
}

} // namespace

void add_indexing_rules(RuleRegistry& registry) {
  registry.add({"index_select"}, index_select_rule);
  registry.add({"gather"}, gather_rule);
  registry.add({"take_along_dim"}, take_along_dim_rule);
  registry.add({"one_hot"}, one_hot_rule);
  registry.add({"scatter", "scatter_reduce"}, scatter_rule);
  registry.add({"scatter_add"}, scatter_add_rule);
  registry.add({"index_copy", "index_fill", "index_reduce"}, index_into_rule);
  registry.add({"index_add"}, index_add_rule);
  registry.add({"take"}, take_rule);
  registry.add({"index", "_unsafe_index"}, index_rule);
  registry.add({"index_put", "_unsafe_index_put", "_index_put_impl"}, index_put_rule);
}

} // namespace weft
