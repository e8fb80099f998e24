#pragma once

#include "weft/tensor/fast_tls.h"

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace weft {

class ExplainLog;

/// Whether matmuls run beside the gathering of what they multiply: where it pays, as measured; never; or wherever they can.
enum class OverlapMode : uint8_t { Auto, Off, Force };

/// "auto", "off", "force"
std::string_view to_string(OverlapMode mode);
OverlapMode parse_overlap_mode(std::string_view text);

/// What this thread asks of the operators it calls. Scopes nest; each ends with its object. Autograd on cpu runs backward
/// on the thread that calls it; on cuda on a thread of its own, for which no scope holds.
struct Scopes {
  bool strict = false;
  bool replicate_plain = false;
  bool debug = false;
  OverlapMode overlap = OverlapMode::Auto;
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
template <auto member>
class ScopeOf {
 public:
  using Value = std::remove_reference_t<decltype(Scopes::of_thread().*member)>;

  ScopeOf()
    requires std::is_same_v<Value, bool>
      : ScopeOf(true) {}
  explicit ScopeOf(Value value) : outer_(Scopes::of_thread().*member) {
    Scopes::of_thread().*member = value;
  }
  ~ScopeOf() {
    Scopes::of_thread().*member = outer_;
  }
  ScopeOf(const ScopeOf&) = delete;
  ScopeOf& operator=(const ScopeOf&) = delete;

 private:
  Value outer_;
};

/// An operator that would have to communicate raises instead, with the plan it would have run.
using StrictScope = ScopeOf<&Scopes::strict>;
/// Plain tensors among distributed ones count as replicated: the same on every rank.
using ReplicatePlainScope = ScopeOf<&Scopes::replicate_plain>;
/// Ranks compare what they are about to do before every operator; the first difference is an error instead of a hang.
using DebugScope = ScopeOf<&Scopes::debug>;
/// Says when matmuls run beside the gathering of what they multiply.
using OverlapScope = ScopeOf<&Scopes::overlap>;

} // namespace weft
