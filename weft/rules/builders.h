#pragma once

#include "weft/rules/rule.h"

#include <string_view>

namespace weft {

/// The words that most rules are made of. Each gives a function from a call to its rule.

/// All operands broadcast against each other; every dim may be cut. `linear` lists sets of operands, see Rule::linear.
RuleFunction pointwise(std::vector<std::vector<int64_t>> linear = {});
/// As pointwise; all operands together may be partial (add, sub).
RuleFunction additive();
/// As pointwise with one tensor whose values are only copied or moved: partial values of any operation pass.
RuleFunction copying();

/// A contraction, as in einsum: "mk,kn->mn". Linear in every operand by itself.
RuleFunction contraction(std::string_view equation);

/// A dim of the first operand per named argument is reduced; others pass. Linear if the reduction is a sum.
RuleFunction reduction(ReduceOp op, std::string_view dim_argument = "dim");

/// One tensor in, one of the same shape out, where the named dims must be whole (softmax, cumsum, sort).
RuleFunction along_dim(std::string_view dim_argument, int64_t output_count = 1);

/// Dims of `sizes` aligned from the back with factors of the sizes `factors` has; dims that broadcast have none.
Rule::Dims broadcast_dims(const Rule& rule, const std::vector<Rule::Factor>& factors, c10::IntArrayRef sizes);

/// One factor per dim of a tensor.
Rule::Dims own_factors(Rule& rule, c10::IntArrayRef sizes);

} // namespace weft
