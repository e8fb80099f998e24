#include "weft/tensor/scopes.h"

namespace weft {

constinit thread_local Scopes Scopes::current_;

} // namespace weft
