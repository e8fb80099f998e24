#pragma once

#include "weft/graph/pt2/written_names.h"

#include <nlohmann/json.hpp>

namespace weft::graph {

/// {"as_tensor": {"name": "x"}}, {"as_sym_int": {"as_name": "s"}}.
nlohmann::json write_value(const Value* value, const WrittenNames& names);
/// {"as_int": 2}, for None, numbers and texts.
nlohmann::json write_constant(const c10::IValue& constant);
/// The arguments of a node, without the absent ones.
nlohmann::json write_arguments(const Node& node, const WrittenNames& names);

} // namespace weft::graph
