#pragma once

#include "weft/rules/rule.h"

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// Dims and operands by their names in the schema, for operators with many arguments, some of which may be absent.
///
///   rule.inputs = dims_by_name(call, {{"input", data}, {"weight", channel}});
///   rule.linear = {operands_by_name(call, {"grad_out"})};

/// The dims of every operand; operands that are not named cannot be sharded.
std::vector<Rule::Dims> dims_by_name(
    const OpCall& call,
    const std::vector<std::pair<std::string_view, Rule::Dims>>& named);

/// The operands of the named arguments, without the absent ones.
std::vector<int64_t> operands_by_name(const OpCall& call, std::initializer_list<std::string_view> names);

} // namespace weft
