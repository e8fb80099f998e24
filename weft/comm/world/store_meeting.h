#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace weft {

/// A barrier of some ranks in a store: each rank publishes a text (its word) and continues when all ranks have done so.
struct StoreMeeting {
  c10::intrusive_ptr<c10d::Store> store; // used by this meeting only
  std::vector<int64_t> ranks;
  int64_t rank;
  std::chrono::milliseconds timeout;

  /// Publishes this rank's text and waits for the others; raises with the ranks that have not arrived at `what` in
  /// time.
  void arrive(const std::string& what, const std::string& word) const;
  /// The texts of all ranks, in the order of `ranks`; call it after arrive.
  std::vector<std::string> words() const;
  /// The last rank to leave removes the meeting's keys, so that the same ranks may meet there again.
  void leave() const;
};

/// "0,1,3"
std::string join_ranks(const std::vector<int64_t>& ranks);

} // namespace weft
