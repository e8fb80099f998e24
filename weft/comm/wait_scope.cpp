#include "weft/comm/wait_scope.h"

namespace weft {

namespace {

WaitHooks wait_hooks{nullptr, nullptr};

} // namespace

void set_wait_hooks(WaitHooks hooks) {
  wait_hooks = hooks;
}

WaitScope::WaitScope() : held_(wait_hooks.before != nullptr ? wait_hooks.before() : nullptr) {}

WaitScope::~WaitScope() {
  if (held_ != nullptr) {
    wait_hooks.after(held_);
  }
}

} // namespace weft
