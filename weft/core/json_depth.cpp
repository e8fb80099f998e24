#include "weft/core/json_depth.h"

namespace weft {

std::optional<size_t> too_deep_at(std::string_view json, int limit) {
  int depth = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    switch (json[i]) {
      case '"': // After a string without an end, the text is no JSON in any case.
        while (++i < json.size() && json[i] != '"') {
          i += json[i] == '\\' ? 1 : 0;
        }
        break;
      case '{':
      case '[':
        if (++depth > limit) {
          return i;
        }
        break;
      case '}':
      case ']':
        --depth;
        break;
      default:
        break;
    }
  }
  return std::nullopt;
}

} // namespace weft
