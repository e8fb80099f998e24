#include "weft/comm/world/store_meeting.h"

#include <c10/util/Exception.h>

namespace weft {

namespace {

constexpr const char* kLeft = "left";

std::string key_of(int64_t rank) {
  return "arrived/" + std::to_string(rank);
}

} // namespace

std::string join_ranks(const std::vector<int64_t>& ranks) {
  std::string text;
  for (const auto rank : ranks) {
    text += (text.empty() ? "" : ",") + std::to_string(rank);
  }
  return text;
}

void StoreMeeting::arrive(const std::string& what, const std::string& word) const {
  std::vector<std::string> keys;
  for (const auto r : ranks) {
    keys.push_back(key_of(r));
  }
  std::string reason;
  try {
    store->set(key_of(rank), std::vector<uint8_t>(word.begin(), word.end()));
    store->wait(keys, timeout);
    return;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  std::vector<int64_t> missing;
  std::string absent;
  try {
    for (const auto r : ranks) {
      if (!store->check({key_of(r)})) {
        missing.push_back(r);
      }
    }
    absent = "ranks " + join_ranks(missing) + " of " + join_ranks(ranks) + " have not arrived";
  } catch (const std::exception&) {
    absent = "it is unknown which of ranks " + join_ranks(ranks) +
        " have not arrived, because the rank that serves the store is gone";
  }
  TORCH_CHECK_WITH(
      DistBackendError, false, "[comm] ", what, " was not complete within ", timeout.count(), " ms on rank ", rank,
      ": ", absent, " (", reason.substr(0, reason.find('\n')), "). Every rank must make this mesh and use it.");
}

std::vector<std::string> StoreMeeting::words() const {
  std::vector<std::string> all;
  for (const auto r : ranks) {
    const auto bytes = store->get(key_of(r));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

void StoreMeeting::leave() const {
  if (store->add(kLeft, 1) < static_cast<int64_t>(ranks.size())) {
    return;
  }
  for (const auto r : ranks) {
    store->deleteKey(key_of(r));
  }
  store->deleteKey(kLeft);
}

} // namespace weft
