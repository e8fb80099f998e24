#include "weft/tensor/impl/call_cache.h"

#include "weft/comm/communicator.h"

namespace weft {

constinit thread_local CallCache* CallCache::current_ = nullptr;

namespace {

const bool drops_calls = [] {
  on_many_groups([] { CallCache::of_thread().start_anew(); });
  return true;
}();

} // namespace

CallCache& CallCache::first_of_thread() {
  thread_local CallCache cache;
  current_ = &cache;
  return cache;
}

PreparedCall& CallCache::add(const CallKey& key, PreparedCall call) {
  if (size_ >= kMaxCalls) {
    start_anew();
  }
  if (4 * (size_ + 1) > slots_.size()) {
    grow();
  }
  auto& slot = slots_[place_of(key)];
  size_ += slot == nullptr ? 1 : 0;
  slot = std::make_unique<Entry>(Entry{key, std::move(call)});
  return slot->call;
}

void CallCache::start_anew() {
  former_ = std::exchange(slots_, Slots(kFirstSlots));
  size_ = 0;
}

void CallCache::grow() {
  auto old = std::exchange(slots_, Slots(2 * slots_.size()));
  for (auto& entry : old) {
    if (entry != nullptr) {
      slots_[place_of(entry->key)] = std::move(entry);
    }
  }
}

} // namespace weft
