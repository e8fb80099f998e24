#pragma once

namespace weft {

/// What is done around every wait for other ranks. An interpreter with a lock gives it away meanwhile, since another
/// thread that needs it may be the rank that is waited for.
struct WaitHooks {
  /// Whatever it returns is handed to `after`, which is not called for nullptr.
  void* (*before)();
  void (*after)(void*);
};

/// Once, before the first wait.
void set_wait_hooks(WaitHooks hooks);

/// A wait for other ranks is going on while it lasts.
class WaitScope {
 public:
  WaitScope();
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  void* held_;
};

} // namespace weft
