#pragma once

#include "weft/core/text_cursor.h"
#include "weft/graph/ir/call_sharding.h"
#include "weft/redistribute/step.h"

#include <ATen/core/function_schema.h>

namespace weft::graph {

/// "dp,tp: {S(0), S(1)} -> {R, R}": the mesh dims (as numbers if there is no mesh) and the layouts before and after.
std::string step_text(const Step& step, const DeviceMesh* mesh);
Step parse_step(TextCursor& cursor, StepKind kind, const std::optional<DeviceMesh>& mesh);

/// " sizes(size: [4,8] {S(1)})", " lookup(1: [50] {S(0)}, masks output, table 0 dim 0)", " fallback because \"...\"":
/// what differs on local tensors, one after another. The numbers of a lookup are indices of operands.
std::string sharding_text(const CallSharding& sharding, const c10::FunctionSchema& schema);
CallSharding parse_sharding(TextCursor& cursor, const c10::FunctionSchema& schema);

/// Parses the name of an argument and returns its index.
size_t parse_argument_name(TextCursor& cursor, const c10::FunctionSchema& schema);

} // namespace weft::graph
