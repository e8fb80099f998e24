#pragma once

#include <optional>
#include <string_view>

namespace weft {

/// Deeper than any file nests that Weft reads, and no danger to the stack.
constexpr int kMaxJsonDepth = 200;

/// The byte at which a JSON text has more than `limit` lists and objects open; none where it never has. Asked before a text
/// is parsed: whoever reads or prints JSON calls itself for every level, so that a text of brackets overflows the stack.
///
///   too_deep_at("[[1], 2]", 1)     // 1
std::optional<size_t> too_deep_at(std::string_view json, int limit = kMaxJsonDepth);

} // namespace weft
