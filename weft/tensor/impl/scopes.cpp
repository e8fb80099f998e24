#include "weft/tensor/impl/scopes.h"

namespace weft {

const std::string Scopes::kCarriedName = "weft::Scopes";
constinit std::atomic<int64_t> Scopes::carried_count = 0;

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

} // namespace weft
