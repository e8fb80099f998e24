#include "weft/comm/world/shared_memory_meeting.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <cstdlib>

namespace weft {

namespace {

constexpr const char* kCannot = "none";
constexpr const char* kMaps = "maps";
constexpr const char* kReads = "reads"; // maps, and may read the rest of the members' memory as well

/// Publishes a word and returns those of all members.
std::vector<std::string> exchange_words(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::string& name,
    const std::vector<int64_t>& ranks,
    int64_t rank,
    std::chrono::milliseconds timeout,
    const std::string& word) {
  const StoreMeeting meeting{c10::make_intrusive<c10d::PrefixStore>(name, store), ranks, ranks[rank], timeout};
  meeting.arrive("shared memory", word);
  auto words = meeting.words();
  meeting.leave();
  return words;
}

bool contains(const std::vector<std::string>& words, const char* word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

} // namespace

bool may_share_memory() {
  const char* text = std::getenv("WEFT_SHARED_MEMORY");
  const std::string_view word = text == nullptr ? "1" : text;
  TORCH_CHECK_VALUE(word == "0" || word == "1", "[comm] WEFT_SHARED_MEMORY must be 0 or 1, but got '", word, "'.");
  return word == "1";
}

std::shared_ptr<SharedMemoryChannel> connect_by_shared_memory(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int64_t>& ranks,
    int64_t rank,
    std::chrono::milliseconds timeout) {
  const auto count = static_cast<int64_t>(ranks.size());
  const auto address = may_share_memory() ? PeerProcess::own_address() : "";
  const auto own = address.empty() ? nullptr : SharedArena::own()->take_zeroed(MemberMemory::bytes_for(count));
  if (own) {
    reinterpret_cast<MemberMemory*>(own->data())->holders = static_cast<uint32_t>(count - 1);
  }
  const auto addresses =
      exchange_words(store, "addresses", ranks, rank, timeout, own ? c10::str(own->offset(), " ", address) : kCannot);
  if (contains(addresses, kCannot)) {
    return nullptr;
  }
  std::vector<SharedMemoryChannel::Member> members;
  bool can_read = true;
  for (const auto& text : addresses) {
    const auto space = text.find(' ');
    auto process = PeerProcess::find(text.substr(space + 1));
    if (!process) {
      break;
    }
    can_read &= process->can_read();
    members.push_back({process, reinterpret_cast<MemberMemory*>(process->at(std::stoll(text.substr(0, space))))});
  }
  const bool found_all = static_cast<int64_t>(members.size()) == count;
  std::vector<std::string> abilities;
  try {
    abilities = exchange_words(
        store, "abilities", ranks, rank, timeout,
        !found_all     ? kCannot
            : can_read ? kReads
                       : kMaps);
  } catch (...) {
    // Other members may have met, and write to this memory: it is never used for anything else.
    static_cast<void>(new std::shared_ptr<SharedBlock>(own));
    throw;
  }
  if (contains(abilities, kCannot)) {
    return nullptr;
  }
  return std::make_shared<SharedMemoryChannel>(
      rank, std::move(members), own, /*can_read=*/!contains(abilities, kMaps), timeout);
}

} // namespace weft
