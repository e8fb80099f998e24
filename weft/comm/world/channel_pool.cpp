#include "weft/comm/world/channel_pool.h"

#include "weft/comm/world/gloo.h"
#include "weft/comm/world/nccl.h"
#include "weft/comm/world/shared_memory_meeting.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdlib>

namespace weft {

namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// The text that one member publishes when a group is made. "7 0 12 0 0 3 40 1 1" offers channel 0 with 12 calls and no
/// messages, and channel 3 with 40 calls and one message in each direction; a new channel would get the id 7.
struct Word {
  int64_t next_id = 0;
  std::map<int64_t, Channel::Counters> offers = {};

  static Word parse(const std::string& text) {
    Word word;
    const char* rest = text.c_str();
    const auto next = [&rest] {
      char* end = nullptr;
      const auto number = std::strtoll(rest, &end, 10);
      rest = end;
      return number;
    };
    word.next_id = next();
    while (*rest == ' ') {
      auto& counters = word.offers[next()];
      counters.calls = next();
      counters.sent = next();
      counters.received = next();
    }
    return word;
  }
  std::string to_string() const {
    auto text = std::to_string(next_id);
    for (const auto& [id, counters] : offers) {
      for (const uint64_t number : {static_cast<uint64_t>(id), counters.calls, counters.sent, counters.received}) {
        text += " " + std::to_string(number);
      }
    }
    return text;
  }
};

/// Whether every member offers the channel and no member has begun a call on it that other members have not begun.
/// Every received message was sent, so equal sums mean that all messages have been received.
bool is_free(int64_t id, const std::vector<Word>& words) {
  uint64_t sent = 0;
  uint64_t received = 0;
  const auto first = words[0].offers.find(id);
  for (const auto& word : words) {
    const auto found = word.offers.find(id);
    if (first == words[0].offers.end() || found == word.offers.end() || found->second.calls != first->second.calls) {
      return false;
    }
    sent += found->second.sent;
    received += found->second.received;
  }
  return sent == received;
}

/// The channel that all members use: the first free one, or else a new one with the id that the first member proposes.
/// All members have read the same texts and therefore agree.
int64_t agreed_id(const std::vector<std::string>& texts) {
  std::vector<Word> words;
  for (const auto& text : texts) {
    words.push_back(Word::parse(text));
  }
  for (const auto& [id, counters] : words[0].offers) {
    if (is_free(id, words)) {
      return id;
    }
  }
  return words[0].next_id;
}

StorePtr substore(const StorePtr& store, const std::string& name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

/// A connection of its own, because a thread that waits in a store blocks the store's connection for all other threads.
StorePtr own_connection(const StorePtr& store) {
  try {
    store->check({"here"}); // fails at once, whereas connecting would retry for a long time
    return store->clone();
  } catch (const std::exception&) {
    return store; // the serving rank is gone: the meeting will raise this error
  }
}

/// Adds the group to an error of the store or of a connection.
auto or_connection_error(const GroupDescription& group, int64_t rank, const auto& fn) {
  try {
    return fn();
  } catch (const c10::NotImplementedError&) {
    throw; // the backend is not built in: the error is complete
  } catch (const std::exception& error) {
    const std::string_view what(error.what());
    TORCH_CHECK_WITH(
        DistBackendError, false, "[comm] group ", group.label, " (ranks ", join_ranks(group.ranks),
        ") could not be connected on rank ", rank, ": ", what.substr(0, what.find('\n')),
        ". A rank has died or is stuck: look at the first error of the other ranks.");
  }
}

} // namespace

size_t ChannelPool::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void ChannelPool::adopt(const GroupDescription& group, const c10::intrusive_ptr<c10d::Backend>& backend) {
  const std::lock_guard lock(mutex_);
  auto& known = adopted_.by_backend[backend.get()];
  auto channel = known.lock();
  if (!channel) {
    channel = std::make_shared<BackendChannel>(substore(store_, "adopted/" + group.identity), backend);
    known = channel;
  }
  adopted_.by_identity.try_emplace(group.identity, channel);
  adopted_.by_label.try_emplace({{group.ranks, group.device_type}, group.label}, channel);
}

std::shared_ptr<Channel> ChannelPool::find_adopted(const GroupDescription& group) const {
  if (const auto own = adopted_.by_identity.find(group.identity); own != adopted_.by_identity.end()) {
    return own->second;
  }
  const auto alike = adopted_.by_label.find({{group.ranks, group.device_type}, group.label});
  return alike == adopted_.by_label.end() ? nullptr : alike->second;
}

std::shared_ptr<Channel> ChannelPool::channel(const GroupDescription& group) {
  std::string word;
  {
    std::unique_lock lock(mutex_);
    if (auto channel = find_adopted(group)) {
      return channel;
    }
    // The members of the other group decide about their offers within the timeout.
    decided_.wait(lock, [&] { return find(group.identity) == nullptr || find(group.identity)->offered_to.empty(); });
    if (const auto* entry = find(group.identity)) {
      return entry->channel;
    }
    word = offer(group);
  }
  const auto store = own_connection(store_);
  const StoreMeeting meeting{substore(store, "meeting/" + group.identity), group.ranks, rank_, timeout_};
  std::shared_ptr<Channel> channel;
  try {
    meeting.arrive("group " + group.label, word);
    const auto id = agree(meeting, group);
    channel = take(group, id);
    if (!channel) {
      channel = connect(group, id, store);
      const std::lock_guard lock(mutex_);
      entries_.push_back(
          {.place = {group.ranks, group.device_type}, .id = id, .identity = group.identity, .channel = channel});
    }
  } catch (...) {
    // Other members may arrive later and use one of the offered channels, so this member must not use these channels
    // again.
    drop_offered(group);
    throw;
  }
  return channel;
}

int64_t ChannelPool::agree(const StoreMeeting& meeting, const GroupDescription& group) const {
  return or_connection_error(group, rank_, [&] {
    const auto id = agreed_id(meeting.words());
    meeting.leave();
    return id;
  });
}

ChannelPool::Entry* ChannelPool::find(const std::string& identity) {
  for (auto& entry : entries_) {
    if (entry.identity == identity) {
      return &entry;
    }
  }
  return nullptr;
}

std::string ChannelPool::offer(const GroupDescription& group) {
  const Place place{group.ranks, group.device_type};
  Word word{.next_id = next_id_[place]++};
  for (auto& entry : entries_) {
    // If only the pool holds the channel, no thread can make a call on it without asking the pool first.
    const bool is_idle = entry.channel.use_count() == 1 && entry.offered_to.empty() && !entry.channel->has_failed();
    if (entry.place == place && is_idle) {
      entry.offered_to = group.identity;
      word.offers[entry.id] = entry.channel->counters();
    }
  }
  return word.to_string();
}

std::shared_ptr<Channel> ChannelPool::take(const GroupDescription& group, int64_t id) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Channel> channel;
  for (auto& entry : entries_) {
    if (entry.offered_to == group.identity) {
      entry.offered_to.clear();
      if (entry.id == id) {
        entry.identity = group.identity;
        channel = entry.channel;
      }
    }
  }
  decided_.notify_all();
  return channel;
}

void ChannelPool::drop_offered(const GroupDescription& group) {
  std::list<Entry> dropped; // closed after the lock is released
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->offered_to == group.identity) {
      dropped.splice(dropped.end(), entries_, entry);
    }
    entry = next;
  }
  decided_.notify_all();
}

std::shared_ptr<Channel> ChannelPool::connect(const GroupDescription& group, int64_t id, const StorePtr& pool_store)
    const {
  return or_connection_error(group, rank_, [&]() -> std::shared_ptr<Channel> {
    const auto size = static_cast<int64_t>(group.ranks.size());
    const auto device = c10::DeviceTypeName(group.device_type, /*lower_case=*/true);
    const auto store = substore(pool_store, c10::str(device, "/", join_ranks(group.ranks), "/", id));
    if (group.device_type == c10::kCUDA) {
      return std::make_shared<BackendChannel>(store, make_nccl_backend(store, group.rank, size, timeout_));
    }
    if (auto shared = connect_by_shared_memory(substore(store, "shared"), group.ranks, group.rank, timeout_)) {
      return shared;
    }
    const auto down_store = substore(store, "down");
    auto upward = make_gloo_backend(store, group.rank, size, timeout_);
    auto downward = make_gloo_backend(down_store, group.rank, size, timeout_);
    return std::make_shared<BackendChannel>(store, std::move(upward), std::move(downward));
  });
}

} // namespace weft
