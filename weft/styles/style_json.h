#pragma once

#include "weft/styles/style.h"

#include <nlohmann/json.hpp>

namespace weft::nn {

/// A style in a plan file: its name, or an object of its name and options; an omitted option has its default.
///
///   "colwise"
///   {"style": "rowwise", "input": "R", "output": "S(1)", "local_output": false, "heads": 8, "parts": 3}
///   {"style": "sequence", "dim": 1, "local_output": false}
///   {"style": "input", "inputs": ["S(1) -> R", null], "keywords": {"mask": "R"}, "local_input": false}
///   {"style": "output", "outputs": ["P(sum) -> S(1)"], "local_output": false}
///   {"style": "input_output", ...}     "replicate"
///   {"style": "shard", "dim": 0, "parts": 2}     {"style": "colwise", "parts": [32, 8, 8]}
///
/// The names of transformers_styles.h are taken too.
/// Raises for an unknown name, an unknown option and a value of the wrong type; `where` begins the error.
Style style_from_json(const std::string& where, const nlohmann::json& json);
nlohmann::json to_json(const Style& style);
nlohmann::json parts_json(const Parts& parts);

} // namespace weft::nn
