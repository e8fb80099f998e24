#pragma once

#include "weft/propagation/call_key.h"
#include "weft/tensor/impl/fast_tls.h"
#include "weft/tensor/impl/prepared_call.h"

#include <memory>
#include <vector>

namespace weft {

/// The calls that this thread has prepared. The cache is bounded: when it is full it starts with an empty table. The
/// entries of the former table stay valid until the new one is full, because a call that is running may make other
/// calls.
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
  /// Finds a call that only runs the local operator and wraps its results (PreparedCall::is_direct). Does not count
  /// misses.
  const PreparedCall* find_direct(const CallKey& key) {
    // Most entries are where their search begins.
    const auto* entry = slots_[key.hash() & (slots_.size() - 1)].get();
    if (C10_UNLIKELY(entry == nullptr || !(entry->key == key))) {
      entry = find_further(key);
    }
    if (C10_LIKELY(entry != nullptr && entry->call.is_direct)) {
      ++direct_hits_;
      return &entry->call;
    }
    return nullptr;
  }
  PreparedCall& add(const CallKey& key, PreparedCall call);
  /// Starts with an empty table, as when the cache is full.
  void start_anew();

  struct Counters {
    size_t size;
    size_t hits;
    size_t misses;
    size_t direct_hits; // the hits of find_direct, which `hits` includes
  };
  Counters counters() const {
    return {size_, hits_ + direct_hits_, misses_, direct_hits_};
  }

 private:
  struct Entry {
    CallKey key;
    PreparedCall call;
  };
  /// A hash table with linear probing: a search begins at the key's hash and ends at an empty slot. At most a quarter
  /// full, so that most searches end where they begin.
  using Slots = std::vector<std::unique_ptr<Entry>>;

  static constexpr size_t kMaxCalls = 16384;
  static constexpr size_t kFirstSlots = 256;

  static CallCache& first_of_thread();
  static constinit thread_local CallCache* current_ WEFT_FAST_TLS;

  /// The slot of the key's entry, or the empty slot where it would be inserted.
  size_t place_of(const CallKey& key) const {
    const auto mask = slots_.size() - 1;
    auto place = key.hash() & mask;
    while (slots_[place] != nullptr && !(slots_[place]->key == key)) {
      place = (place + 1) & mask;
    }
    return place;
  }
  C10_NOINLINE const Entry* find_further(const CallKey& key) const {
    return slots_[place_of(key)].get();
  }
  void grow();

  Slots slots_ = Slots(kFirstSlots);
  Slots former_;
  size_t size_ = 0;
  size_t hits_ = 0;
  size_t misses_ = 0;
  size_t direct_hits_ = 0;
};

} // namespace weft
