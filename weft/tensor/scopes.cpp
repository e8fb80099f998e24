#include "weft/tensor/scopes.h"

#include <utility>

namespace weft {

namespace {

thread_local bool debugging = false;

} // namespace

DebugScope::DebugScope(bool enabled) : outer_(std::exchange(debugging, enabled)) {}

DebugScope::~DebugScope() {
  debugging = outer_;
}

bool debug_enabled() {
  return debugging;
}

} // namespace weft
