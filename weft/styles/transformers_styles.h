#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace weft::nn {

/// Weft's form of a style that the plans of Hugging Face's transformers name (`base_model_tp_plan`, `_tp_plan`); null for
/// any other name. Styles for what Weft does by itself, as reducing the gradients of a replicated norm, are "replicate".
///
///   transformers_style("colwise_gather_output");   // {"style": "colwise", "output": "R"}
nlohmann::json transformers_style(const std::string& name);

} // namespace weft::nn
