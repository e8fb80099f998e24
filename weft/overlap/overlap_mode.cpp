#include "weft/overlap/overlap_mode.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace weft {

namespace {

constexpr std::array<std::string_view, 3> kOverlapModes = {"auto", "off", "force"};

} // namespace

std::string_view to_string(OverlapMode mode) {
  return kOverlapModes[static_cast<size_t>(mode)];
}

OverlapMode parse_overlap_mode(std::string_view text) {
  const auto found = std::find(kOverlapModes.begin(), kOverlapModes.end(), text);
  TORCH_CHECK_VALUE(
      found != kOverlapModes.end(), "[overlap] one of 'auto', 'off' and 'force' is required, but got '", text, "'.");
  return static_cast<OverlapMode>(found - kOverlapModes.begin());
}

} // namespace weft
