#pragma once

#include "weft/overlap/overlap_mode.h"
#include "weft/tensor/impl/carried_value.h"

#include <functional>
#include <memory>
#include <string>
#include <type_traits>

namespace weft {

class ExplainedCalls;

/// What to do when an operator redistributes an operand by itself.
struct RedistributionWatch {
  /// Whether redistributions that communicate nothing count too.
  bool counts_free_ones = false;
  /// Gets the message of the error that is raised if there is no function.
  std::function<void(const std::string& message)> warn;
};

/// Settings of this thread for the operators that it calls. Scopes nest; each ends when its object is destroyed. They
/// also apply in backward, on whatever thread autograd runs it, and to recomputed activations (torch.utils.checkpoint).
struct Scopes {
  bool strict = false;
  bool replicate_plain = false;
  bool debug = false;
  /// See nn::LossParallel.
  bool loss_parallel = false;
  OverlapMode overlap = OverlapMode::Auto;
  std::shared_ptr<ExplainedCalls> explain;
  std::shared_ptr<const RedistributionWatch> redistribution_watch;

  bool operator==(const Scopes&) const = default;
  bool any() const {
    return strict || debug || explain != nullptr || redistribution_watch != nullptr;
  }

  /// Whether any() is true of this thread's, at the cost of one load where no thread has any.
  C10_ALWAYS_INLINE static bool any_of_thread() {
    return C10_UNLIKELY(CarriedValue<Scopes>::is_anywhere()) && carried().any();
  }
  static const Scopes& of_thread() {
    return C10_LIKELY(!CarriedValue<Scopes>::is_anywhere()) ? kNone : carried();
  }
  /// Sets one member for this thread and returns its former value.
  template <auto member, class Value>
  static Value exchange(Value value) {
    auto scopes = of_thread();
    auto outer = std::exchange(scopes.*member, std::move(value));
    set(std::move(scopes));
    return outer;
  }

  static const std::string kCarriedName;
  static std::atomic<int64_t> carried_count;

 private:
  static const Scopes& carried();
  static void set(Scopes scopes);
  static const Scopes kNone;
};

inline constinit const Scopes Scopes::kNone;

inline bool debug_enabled() {
  return Scopes::of_thread().debug;
}

/// Sets one member of Scopes until the object is destroyed.
template <auto member>
class ScopeOf {
 public:
  using Value = std::remove_cvref_t<decltype(Scopes::of_thread().*member)>;

  ScopeOf()
    requires std::is_same_v<Value, bool>
      : ScopeOf(true) {}
  explicit ScopeOf(Value value) : outer_(Scopes::exchange<member>(std::move(value))) {}
  ~ScopeOf() {
    Scopes::exchange<member>(std::move(outer_));
  }
  ScopeOf(const ScopeOf&) = delete;
  ScopeOf& operator=(const ScopeOf&) = delete;

 private:
  Value outer_;
};

/// An operator that would have to communicate raises instead; the error shows its redistribution plans.
using StrictScope = ScopeOf<&Scopes::strict>;
/// Plain tensors among distributed ones count as replicated: the same on every rank.
using ReplicatePlainScope = ScopeOf<&Scopes::replicate_plain>;
/// Ranks compare their calls before every operator; the first difference is an error instead of a hang.
using DebugScope = ScopeOf<&Scopes::debug>;
/// Sets when matmuls overlap with gathering their operands.
using OverlapScope = ScopeOf<&Scopes::overlap>;

} // namespace weft
