#pragma once

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace weft::graph {

/// The numbers of these enums in files, which differ from c10's; none for a number or a value without a counterpart.
std::optional<c10::ScalarType> scalar_type_of_serialized(int64_t number);
std::optional<int64_t> serialized_scalar_type(c10::ScalarType type);
std::optional<c10::Layout> layout_of_serialized(int64_t number);
std::optional<int64_t> serialized_layout(c10::Layout layout);
std::optional<c10::MemoryFormat> memory_format_of_serialized(int64_t number);
std::optional<int64_t> serialized_memory_format(c10::MemoryFormat format);

} // namespace weft::graph
