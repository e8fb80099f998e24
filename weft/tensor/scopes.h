#pragma once

#include "weft/tensor/fast_tls.h"

namespace weft {

class ExplainLog;

/// What this thread asks of the operators it calls. Scopes nest; each ends with its object. Autograd on cpu runs backward
/// on the thread that calls it; on cuda on a thread of its own, for which no scope holds.
struct Scopes {
  bool strict = false;
  bool replicate_plain = false;
  bool debug = false;
  ExplainLog* explain = nullptr;

  bool any() const {
    return strict || debug || explain != nullptr;
  }
  static Scopes& of_thread() {
    return current_;
  }

 private:
  static constinit thread_local Scopes current_ WEFT_FAST_TLS;
};

inline bool debug_enabled() {
  return Scopes::of_thread().debug;
}

/// Sets one of the above while it lasts.
template <bool Scopes::*member>
class ScopeOf {
 public:
  explicit ScopeOf(bool enabled = true) : outer_(Scopes::of_thread().*member) {
    Scopes::of_thread().*member = enabled;
  }
  ~ScopeOf() {
    Scopes::of_thread().*member = outer_;
  }
  ScopeOf(const ScopeOf&) = delete;
  ScopeOf& operator=(const ScopeOf&) = delete;

 private:
  bool outer_;
};

/// An operator that would have to communicate raises instead, with the plan it would have run.
using StrictScope = ScopeOf<&Scopes::strict>;
/// Plain tensors among distributed ones count as replicated: the same on every rank.
using ReplicatePlainScope = ScopeOf<&Scopes::replicate_plain>;
/// Ranks compare what they are about to do before every operator; the first difference is an error instead of a hang.
using DebugScope = ScopeOf<&Scopes::debug>;

} // namespace weft
