#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace weft {

/// Some ranks meet in a store: each says a word, and goes on when all have.
struct StoreMeeting {
  c10::intrusive_ptr<c10d::Store> store; // for this meeting alone
  std::vector<int64_t> ranks;
  int64_t rank;
  std::chrono::milliseconds timeout;

  /// Says this rank's word and waits for the others; raises with the ranks that have not come to `what` in time.
  void arrive(const std::string& what, const std::string& word) const;
  /// What everybody has said, in the order of `ranks`; after arrive.
  std::vector<std::string> words() const;
  /// The last one to leave removes what the meeting has written, so that the same ranks may meet there again.
  void leave() const;
};

/// "0,1,3"
std::string join_ranks(const std::vector<int64_t>& ranks);

} // namespace weft
