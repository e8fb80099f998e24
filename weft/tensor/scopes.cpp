#include "weft/tensor/scopes.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>

namespace weft {

const std::string Scopes::kCarriedName = "weft::Scopes";
constinit std::atomic<int64_t> Scopes::carried_count = 0;

namespace {

constexpr std::array<std::string_view, 3> kOverlapModes = {"auto", "off", "force"};

} // namespace

const Scopes& Scopes::carried() {
  const auto* scopes = CarriedValue<Scopes>::get();
  return scopes == nullptr ? kNone : *scopes;
}

void Scopes::set(Scopes scopes) {
  if (scopes == of_thread()) {
    return;
  }
  if (scopes == kNone) {
    CarriedValue<Scopes>::reset();
  } else {
    CarriedValue<Scopes>::set(std::move(scopes));
  }
}

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
