#pragma once

#include "weft/propagation/call_key.h"
#include "weft/tensor/impl/prepared_call.h"

#include <memory>
#include <vector>

/// A small thread-local variable that every operator reads: found by an offset instead of by a function call. The memory
/// for such variables is set aside when a program starts, with room for few from libraries that are loaded later.
#define WEFT_FAST_TLS __attribute__((tls_model("initial-exec")))

namespace weft {

/// The calls that this thread has prepared. Bounded: when full it starts anew; what was found before stays valid until it
/// is full again, so that a call may make others while it runs.
class CallCache {
 public:
  static CallCache& of_thread() {
    return C10_LIKELY(current_ != nullptr) ? *current_ : first_of_thread();
  }

  PreparedCall* find(const CallKey& key) {
    auto* const entry = slots_[place_of(key)].get();
    if (C10_LIKELY(entry != nullptr)) {
      ++hits_;
      return &entry->call;
    }
    ++misses_;
    return nullptr;
  }
  /// A call of which nothing is left but the local operator and its results; a miss is not counted.
  const PreparedCall* find_direct(const CallKey& key) {
    const auto* const entry = slots_[place_of(key)].get();
    if (C10_LIKELY(entry != nullptr && entry->call.is_direct)) {
      ++direct_hits_;
      return &entry->call;
    }
    return nullptr;
  }
  PreparedCall& add(const CallKey& key, PreparedCall call);
  /// As when it is full.
  void start_anew();

  struct Counters {
    size_t size;
    size_t hits;
    size_t misses;
    size_t direct_hits; // those among the hits that went straight to the local operator
  };
  Counters counters() const {
    return {size_, hits_ + direct_hits_, misses_, direct_hits_};
  }

 private:
  struct Entry {
    CallKey key;
    PreparedCall call;
  };
  /// A table that is searched from the key's hash on, up to an empty slot; never more than half full.
  using Slots = std::vector<std::unique_ptr<Entry>>;

  static constexpr size_t kMaxCalls = 16384;

  static CallCache& first_of_thread();
  static constinit thread_local CallCache* current_ WEFT_FAST_TLS;

  /// Where the key is, or where it belongs.
  size_t place_of(const CallKey& key) const {
    const auto mask = slots_.size() - 1;
    auto place = key.hash() & mask;
    while (slots_[place] != nullptr && !(slots_[place]->key == key)) {
      place = (place + 1) & mask;
    }
    return place;
  }
  void grow();

  Slots slots_ = Slots(64);
  Slots former_;
  size_t size_ = 0;
  size_t hits_ = 0;
  size_t misses_ = 0;
  size_t direct_hits_ = 0;
};

} // namespace weft
