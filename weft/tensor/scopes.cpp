#include "weft/tensor/scopes.h"

namespace weft {

Scopes& Scopes::of_thread() {
  thread_local Scopes scopes;
  return scopes;
}

} // namespace weft
