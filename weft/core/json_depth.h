#pragma once

#include <optional>
#include <string_view>

namespace weft {

/// More levels than any file that Weft reads, and few enough for the stack.
constexpr int kMaxJsonDepth = 200;

/// The byte at which a JSON text has more than `limit` open lists and objects, if there is one. Call this before
/// parsing: JSON parsers and printers recurse once per level, so a text of many brackets would overflow the stack.
///
///   too_deep_at("[[1], 2]", 1)     // 1
std::optional<size_t> too_deep_at(std::string_view json, int limit = kMaxJsonDepth);

} // namespace weft
