#pragma once

#include "weft/comm/group.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <map>
#include <mutex>

namespace weft {

/// One c10d group as one rank sees it, shared by every label it goes under, so that its calls are numbered once.
class BackendChannel {
 public:
  explicit BackendChannel(c10::intrusive_ptr<c10d::Backend> backend) : backend_(std::move(backend)) {}

  c10d::Backend& backend() {
    return *backend_;
  }
  uint64_t next_sequence() {
    return calls_++;
  }
  uint64_t next_message(Collective direction, int64_t peer);

  /// Raises an error that names the call, the group and its ranks; from then on every call on this channel fails at
  /// once, since its members no longer agree on where they are.
  [[noreturn]] void fail(const Group& group, const Call& call, std::string_view what);
  void check_usable(const Group& group, const Call& call);

 private:
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::atomic<uint64_t> calls_ = 0;
  std::mutex mutex_;
  std::map<std::pair<Collective, int64_t>, uint64_t> messages_;
  std::string first_failure_;
};

} // namespace weft
