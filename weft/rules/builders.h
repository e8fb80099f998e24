#pragma once

#include "weft/rules/rule.h"

#include <string_view>

namespace weft {

/// Builders for most rules. Each returns a function from a call to its rule.

using OperandSets = std::vector<std::vector<int64_t>>;

/// All operands broadcast against each other; every dim may be sharded. `linear` lists sets of operands, see
/// Rule::linear.
RuleFunction pointwise(const OperandSets& linear = {}, int64_t output_count = 1);
/// As pointwise; all operands together may be partial (add, sub). With a number as second operand, the first operand
/// may be partial with an average.
RuleFunction additive();
/// maximum and minimum: as pointwise, and both operands together may be partial with the same op.
RuleFunction larger_of(ReduceOp op);
/// As pointwise, for operators that only copy values: all operands together may be partial with any op.
RuleFunction copying();

/// A contraction, as in einsum: "mk,kn->mn". It is linear in each single operand.
RuleFunction contraction(std::string_view equation);

/// Reduces the dims of the first operand that the argument names, or all dims if it names none; the other dims pass.
/// The operand may be partial with the same op, and for a sum also with an average.
RuleFunction reduction(ReduceOp op, std::string_view dim_argument = "dim");
/// As reduction, with any number of outputs, if the reduced dims must not be sharded.
RuleFunction unsharded_reduction(int64_t output_count = 1, const OperandSets& linear = {});

/// Inputs and outputs have one shape, and the named dims must not be sharded (softmax, cumsum, sort).
RuleFunction along_dim(std::string_view dim_argument, int64_t output_count = 1, const OperandSets& linear = {});

/// One input, and one output whose dims are some of the input's, in the given order; -1 for a new dim that cannot be
/// sharded. Values are only copied.
Rule rearranged(const OpCall& call, c10::IntArrayRef order);
/// 0, 1, 2, ... for every dim of the first operand.
std::vector<int64_t> natural_order(const OpCall& call);
/// Dims in their order in a result of `ndim` dims, around two new ones, a and b, which are -1.
std::vector<int64_t> order_around(int64_t ndim, int64_t a, int64_t b);
/// The indices of all operands.
std::vector<int64_t> all_operands(const OpCall& call);
/// Applies to calls whose first operand has at least `least` dims; other calls raise the same error as on one device.
RuleFunction of_ndim(int64_t least, const RuleFunction& rule);
/// The rule with these dims of the first operand marked as not shardable.
Rule with_unsharded(Rule rule, c10::IntArrayRef dims);

/// The factors of the dims of `sizes`, aligned from the last dim with `factors`; a dim that broadcasts has none.
Rule::Dims broadcast_dims(const Rule& rule, const std::vector<Rule::Factor>& factors, c10::IntArrayRef sizes);

/// Adds one factor per dim of a tensor.
Rule::Dims own_factors(Rule& rule, c10::IntArrayRef sizes);

/// Whether a tensor of this dtype may be partial with a sum. Sums of narrow integers wrap around and sums of bools
/// saturate, so an operator on the terms would give another result than on the sum; floats of 8 bits are not summed at all.
bool has_terms(c10::ScalarType dtype);
/// Whether casting every term gives the terms of the cast value.
bool casts_terms(c10::ScalarType from, c10::ScalarType to);

} // namespace weft
