#pragma once

#include "weft/tensor/call_key.h"
#include "weft/tensor/prepared_call.h"

#include <memory>
#include <unordered_map>

namespace weft {

/// The calls that this thread has prepared. Bounded: when full it starts anew; what was found before stays valid until it
/// is full again, so that a call may make others while it runs.
class CallCache {
 public:
  static CallCache& of_thread();

  const PreparedCall* find(const CallKey& key);
  const PreparedCall& add(const CallKey& key, PreparedCall call);

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
  using Calls = std::unordered_map<CallKey, std::unique_ptr<const PreparedCall>, KeyHash>;

  static constexpr size_t kMaxCalls = 16384;

  Calls calls_;
  Calls former_;
  size_t hits_ = 0;
  size_t misses_ = 0;
};

} // namespace weft
