#pragma once

#include "weft/rules/rule.h"

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// For operators of many arguments, some of them absent: dims and operands by the names in the schema.
///
///   rule.inputs = dims_by_name(call, {{"input", data}, {"weight", channel}});
///   rule.linear = {operands_by_name(call, {"grad_out"})};

/// The dims of every operand; those that are not named cannot be cut.
std::vector<Rule::Dims> dims_by_name(
    const OpCall& call,
    const std::vector<std::pair<std::string_view, Rule::Dims>>& named);

/// The operands that the named arguments are; absent ones are left out.
std::vector<int64_t> operands_by_name(const OpCall& call, std::initializer_list<std::string_view> names);

} // namespace weft
