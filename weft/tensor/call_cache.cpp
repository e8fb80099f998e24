#include "weft/tensor/call_cache.h"

namespace weft {

constinit thread_local CallCache* CallCache::current_ = nullptr;

CallCache& CallCache::first_of_thread() {
  thread_local CallCache cache;
  current_ = &cache;
  return cache;
}

PreparedCall* CallCache::find(const CallKey& key) {
  const auto found = calls_.find(key);
  if (found == calls_.end()) {
    ++misses_;
    return nullptr;
  }
  ++hits_;
  return found->second.get();
}

PreparedCall& CallCache::add(const CallKey& key, PreparedCall call) {
  if (calls_.size() >= kMaxCalls) {
    former_ = std::move(calls_);
    calls_.clear();
  }
  auto& place = calls_[key];
  place = std::make_unique<PreparedCall>(std::move(call));
  return *place;
}

} // namespace weft
