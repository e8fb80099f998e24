#include "weft/tensor/call_cache.h"

namespace weft {

CallCache& CallCache::of_thread() {
  thread_local CallCache cache;
  return cache;
}

const CachedCall* CallCache::find(const CallKey& key) {
  const auto found = calls_.find(key);
  if (found == calls_.end()) {
    ++misses_;
    return nullptr;
  }
  ++hits_;
  return &found->second;
}

const CachedCall& CallCache::add(const CallKey& key, CachedCall call) {
  if (calls_.size() >= kMaxCalls) {
    calls_.clear();
  }
  return calls_.insert_or_assign(key, std::move(call)).first->second;
}

void CallCache::clear() {
  calls_.clear();
}

} // namespace weft
