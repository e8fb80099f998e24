#pragma once

#include "weft/rules/rule.h"

#include <string_view>

namespace weft {

/// The words that most rules are made of. Each gives a function from a call to its rule.

using OperandSets = std::vector<std::vector<int64_t>>;

/// All operands broadcast against each other; every dim may be cut. `linear` lists sets of operands, see Rule::linear.
RuleFunction pointwise(const OperandSets& linear = {}, int64_t output_count = 1);
/// As pointwise; all operands together may be partial (add, sub). With a number in place of the second operand the first
/// may be an average.
RuleFunction additive();
/// The larger or the smaller of two: as pointwise, and passes maxima or minima of both together.
RuleFunction larger_of(ReduceOp op);
/// As pointwise with operands whose values are only copied or moved: they pass partial values of any operation together.
RuleFunction copying();

/// A contraction, as in einsum: "mk,kn->mn". Linear in every operand by itself.
RuleFunction contraction(std::string_view equation);

/// A dim of the first operand per named argument is reduced, all where none is named; others pass. Partial values of the
/// operation pass too, and averages where it is a sum.
RuleFunction reduction(ReduceOp op, std::string_view dim_argument = "dim");
/// As reduction, to any number of outputs, where the reduced dims must be whole.
RuleFunction reduction_of_whole(int64_t output_count = 1, const OperandSets& linear = {});

/// Tensors of one shape in and out, where the named dims must be whole (softmax, cumsum, sort).
RuleFunction along_dim(std::string_view dim_argument, int64_t output_count = 1, const OperandSets& linear = {});

/// One tensor in, one out whose dims are some of the input's, in some order; -1 for a dim that cannot be cut. Values are
/// only moved.
Rule rearranged(const OpCall& call, c10::IntArrayRef order);
/// 0, 1, 2, ... for every dim of the first operand.
std::vector<int64_t> natural_order(const OpCall& call);
/// Dims in their order in a result of `rank` dims, around two new ones, a and b, which are -1.
std::vector<int64_t> order_around(int64_t rank, int64_t a, int64_t b);
/// The numbers of all operands.
std::vector<int64_t> all_operands(const OpCall& call);
/// For calls whose first operand has at least so many dims; others raise as they do locally.
RuleFunction of_rank(int64_t least, const RuleFunction& rule);
/// The rule, with these dims of the first operand whole.
Rule with_whole(Rule rule, c10::IntArrayRef dims);

/// Dims of `sizes` aligned from the back with factors of the sizes `factors` has; dims that broadcast have none.
Rule::Dims broadcast_dims(const Rule& rule, const std::vector<Rule::Factor>& factors, c10::IntArrayRef sizes);

/// One factor per dim of a tensor.
Rule::Dims own_factors(Rule& rule, c10::IntArrayRef sizes);

/// Whether a value may stand as the sum of terms wherever it goes: sums of narrow integers wrap, those of truth values
/// saturate, and what is made of the terms is then not what is made of the sum.
bool has_terms(c10::ScalarType dtype);
/// Whether casting the terms of a value is casting the value.
bool casts_terms(c10::ScalarType from, c10::ScalarType to);

} // namespace weft
