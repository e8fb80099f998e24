#pragma once

namespace weft {

/// Functions to call around every wait for other ranks. An interpreter with a global lock releases it during the wait,
/// because another thread of this process that needs the lock may be the rank that is waited for.
struct WaitHooks {
  /// The result of `before` is passed to `after`; `after` is not called for nullptr.
  void* (*before)();
  void (*after)(void*);
};

/// Call this once, before the first wait.
void set_wait_hooks(WaitHooks hooks);

/// Calls the wait hooks around a wait for other ranks.
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
