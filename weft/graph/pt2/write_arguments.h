#pragma once

#include "weft/graph/pt2/written_names.h"

#include <nlohmann/json.hpp>

namespace weft::graph {

/// {"as_tensor": {"name": "x"}}, {"as_sym_int": {"as_name": "s"}}.
nlohmann::json write_value(const Value* value, const WrittenNames& names);
/// {"as_int": 2}, of None, numbers and texts.
nlohmann::json write_constant(const c10::IValue& constant);
/// The arguments that a node is called with, those that are absent left out.
nlohmann::json write_arguments(const Node& node, const WrittenNames& names);

} // namespace weft::graph
