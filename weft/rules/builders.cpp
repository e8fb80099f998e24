#include "weft/rules/builders.h"

#include "weft/rules/equation.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace weft {

namespace {

std::vector<int64_t> broadcast_shape(c10::ArrayRef<Operand> operands) {
  std::vector<int64_t> shape;
  for (const auto& operand : operands) {
    const auto ndim = operand.sizes.size();
    if (ndim > shape.size()) {
      shape.insert(shape.begin(), ndim - shape.size(), 1);
    }
    for (size_t d = 0; d < ndim; ++d) {
      auto& size = shape[shape.size() - ndim + d];
      size = size == 1 ? operand.sizes[d] : size;
    }
  }
  return shape;
}

Rule broadcasting(const OpCall& call) {
  Rule rule;
  const auto shape = broadcast_shape(call.operands());
  const auto output = own_factors(rule, shape);
  std::vector<Rule::Factor> factors(shape.size());
  std::iota(factors.begin(), factors.end(), Rule::Factor{0});
  for (const auto& operand : call.operands()) {
    rule.inputs.push_back(broadcast_dims(rule, factors, operand.sizes));
  }
  rule.outputs.push_back(output);
  return rule;
}

/// Whether an operand may be partial, considering its dtype and the dtype it is cast to.
bool passes_terms(const OpCall& call, int64_t operand) {
  const auto dtype = call.operand(operand).dtype;
  return has_terms(dtype) && casts_terms(dtype, call.dtype("dtype", dtype));
}

/// Adds the sets of operands that the call has and whose operands may all be partial.
void add_linear(Rule& rule, const OpCall& call, const OperandSets& linear) {
  for (const auto& set : linear) {
    if (std::all_of(set.begin(), set.end(), [&](int64_t i) {
          return i < static_cast<int64_t>(rule.inputs.size()) && passes_terms(call, i);
        })) {
      rule.linear.push_back(set);
    }
  }
}

} // namespace

Rule::Dims own_factors(Rule& rule, c10::IntArrayRef sizes) {
  Rule::Dims dims;
  for (const auto size : sizes) {
    dims.push_back({rule.add_factor(size)});
  }
  return dims;
}

Rule::Dims broadcast_dims(const Rule& rule, const std::vector<Rule::Factor>& factors, c10::IntArrayRef sizes) {
  Rule::Dims dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto factor = factors[factors.size() - sizes.size() + d];
    dims.push_back(sizes[d] == rule.sizes[factor] ? Rule::Dim{factor} : Rule::Dim{});
  }
  return dims;
}

bool has_terms(c10::ScalarType dtype) {
  const bool is_float = c10::isFloatingType(dtype) && c10::elementSize(dtype) > 1; // those of 8 bits cannot be added
  return is_float || c10::isComplexType(dtype) || dtype == c10::kLong;
}

bool casts_terms(c10::ScalarType from, c10::ScalarType to) {
  return from == to || (c10::isFloatingType(from) && c10::isFloatingType(to) && has_terms(to));
}

RuleFunction pointwise(const OperandSets& linear, int64_t output_count) {
  return [linear, output_count](const OpCall& call) {
    auto rule = broadcasting(call);
    rule.outputs.resize(output_count, Rule::Dims(rule.outputs[0]));
    add_linear(rule, call, linear);
    return rule;
  };
}

RuleFunction additive() {
  return [](const OpCall& call) {
    auto rule = broadcasting(call);
    add_linear(rule, call, {all_operands(call)});
    if (rule.inputs.size() == 1) {
      // The number is added to the term of every rank: that adds it once to the average, but once per rank to the sum.
      rule.linear_op = ReduceOp::Avg;
    }
    return rule;
  };
}

RuleFunction larger_of(ReduceOp op) {
  return [op](const OpCall& call) {
    auto rule = pointwise({{0, 1}})(call).value();
    rule.linear_op = op;
    return rule;
  };
}

RuleFunction copying() {
  return [](const OpCall& call) {
    auto rule = broadcasting(call);
    rule.linear.push_back(all_operands(call));
    rule.linear_in_any_op = true;
    return rule;
  };
}

RuleFunction contraction(std::string_view text) {
  const auto equation = parse_equation(text);
  TORCH_INTERNAL_ASSERT(equation.has_value(), text);
  return [equation = *equation](const OpCall& call) -> std::optional<Rule> {
    const auto& [inputs, output] = equation;
    std::vector<c10::IntArrayRef> sizes;
    for (const auto& operand : call.operands()) {
      sizes.push_back(operand.sizes);
    }
    if (!equation.fits(sizes)) {
      return std::nullopt; // the operator raises an error when it runs on replicated tensors
    }
    Rule rule;
    std::map<char, Rule::Factor> factors;
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto& dims = rule.inputs.emplace_back();
      for (size_t d = 0; d < inputs[i].size(); ++d) {
        const auto letter = inputs[i][d];
        if (!factors.contains(letter)) {
          factors[letter] = rule.add_factor(sizes[i][d]);
        }
        dims.push_back({factors[letter]});
      }
      rule.linear.push_back({static_cast<int64_t>(i)});
    }
    auto& dims = rule.outputs.emplace_back();
    for (const auto letter : output) {
      dims.push_back({factors[letter]});
    }
    return rule;
  };
}

RuleFunction reduction(ReduceOp op, std::string_view dim_argument) {
  return [op, dim_argument = std::string(dim_argument)](const OpCall& call) {
    Rule rule;
    const auto& sizes = call.operand(0).sizes;
    const auto dims = call.reduced_dims(dim_argument, static_cast<int64_t>(sizes.size()));
    rule.inputs.push_back(own_factors(rule, sizes));
    auto& output = rule.outputs.emplace_back();
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end()) {
        output.push_back(rule.inputs[0][d]);
      } else if (call.boolean("keepdim")) {
        output.emplace_back();
      }
    }
    rule.reduction = op;
    for (const auto d : dims) {
      if ((op == ReduceOp::Max || op == ReduceOp::Min) && d < call.operand(0).dim()) {
        rule.filled.push_back(rule.inputs[0][d][0]); // zero elements have no maximum or minimum
      }
    }
    add_linear(rule, call, {{0}});
    rule.linear_op = op == ReduceOp::Sum ? std::nullopt : std::optional(op);
    return rule;
  };
}

RuleFunction unsharded_reduction(int64_t output_count, const OperandSets& linear) {
  return [output_count, linear](const OpCall& call) {
    auto rule = reduction(ReduceOp::Sum)(call).value();
    for (size_t f = 0; f < rule.sizes.size(); ++f) {
      if (rule.is_reduced(static_cast<Rule::Factor>(f))) {
        rule.unsharded.push_back(static_cast<Rule::Factor>(f));
      }
    }
    rule.outputs.resize(output_count, Rule::Dims(rule.outputs[0]));
    rule.linear = rule.linear.empty() ? OperandSets() : linear;
    return rule;
  };
}

RuleFunction along_dim(std::string_view dim_argument, int64_t output_count, const OperandSets& linear) {
  return [dim_argument = std::string(dim_argument), output_count, linear](const OpCall& call) {
    Rule rule;
    const auto& sizes = call.operand(0).sizes;
    const auto dims = own_factors(rule, sizes);
    rule.inputs.assign(call.operands().size(), dims);
    rule.outputs.assign(output_count, dims);
    add_linear(rule, call, linear);
    return with_unsharded(std::move(rule), call.reduced_dims(dim_argument, call.operand(0).dim()));
  };
}

Rule rearranged(const OpCall& call, c10::IntArrayRef order) {
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

std::vector<int64_t> all_operands(const OpCall& call) {
  std::vector<int64_t> all(call.operands().size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

std::vector<int64_t> order_around(int64_t ndim, int64_t a, int64_t b) {
  std::vector<int64_t> order;
  int64_t passed = 0;
  for (int64_t d = 0; d < ndim; ++d) {
    order.push_back(d == a || d == b ? -1 : passed++);
  }
  return order;
}

std::vector<int64_t> natural_order(const OpCall& call) {
  std::vector<int64_t> order(call.operand(0).sizes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  return order;
}

RuleFunction of_ndim(int64_t least, const RuleFunction& rule) {
  return [least, rule](const OpCall& call) { return call.operand(0).dim() < least ? std::nullopt : rule(call); };
}

Rule with_unsharded(Rule rule, c10::IntArrayRef dims) {
  for (const auto d : dims) {
    if (d < static_cast<int64_t>(rule.inputs[0].size())) { // a 0-dim tensor accepts dim 0 as well
      rule.unsharded.push_back(rule.inputs[0][d][0]);
    }
  }
  return rule;
}

} // namespace weft
