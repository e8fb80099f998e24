#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/json_field.h"

namespace weft::graph {

/// {"as_int": 4} or {"as_expr": {"expr_str": "Symbol('s77', ...)", "hint": {"as_int": 3}}}. The value of a symbol at
/// the export is stored in `symbols`.
Size read_size(const JsonField& field, std::map<std::string, Symbol>& symbols);
TensorType read_tensor_type(const JsonField& field, std::map<std::string, Symbol>& symbols);
/// An entry of "sym_int_values", "sym_float_values" or "sym_bool_values".
NumberType read_number_type(const JsonField& field, NumberKind kind, std::map<std::string, Symbol>& symbols);
c10::ScalarType read_scalar_type(const JsonField& field);
c10::Device read_device(const JsonField& field);

} // namespace weft::graph
