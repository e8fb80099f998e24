#pragma once

#include "weft/tensor/call_key.h"
#include "weft/tensor/fast_tls.h"
#include "weft/tensor/prepared_call.h"

#include <memory>
#include <unordered_map>

namespace weft {

/// The calls that this thread has prepared. Bounded: when full it starts anew; what was found before stays valid until it
/// is full again, so that a call may make others while it runs.
class CallCache {
 public:
  static CallCache& of_thread() {
    return C10_LIKELY(current_ != nullptr) ? *current_ : first_of_thread();
  }

  PreparedCall* find(const CallKey& key);
  PreparedCall& add(const CallKey& key, PreparedCall call);

  struct Counters {
    size_t size;
    size_t hits;
    size_t misses;
  };
  Counters counters() const {
    return {calls_.size(), hits_, misses_};
  }

 private:
  struct KeyHash {
    size_t operator()(const CallKey& key) const {
      return key.hash();
    }
  };
  using Calls = std::unordered_map<CallKey, std::unique_ptr<PreparedCall>, KeyHash>;

  static constexpr size_t kMaxCalls = 16384;

  static CallCache& first_of_thread();
  static constinit thread_local CallCache* current_ WEFT_FAST_TLS;

  Calls calls_;
  Calls former_;
  size_t hits_ = 0;
  size_t misses_ = 0;
};

} // namespace weft
