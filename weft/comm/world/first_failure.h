#pragma once

#include "weft/comm/group.h"

#include <mutex>
#include <string>

namespace weft {

/// The first failed call of a group. Every later call fails at once, because after a failed call the members no longer
/// agree on the number of calls made.
class FirstFailure {
 public:
  bool has_happened() const;

  /// Keeps the text of a failed call if it is the first one.
  void record(const std::string& text);

  /// Records the call, and raises an error that names the call, the group and this rank.
  [[noreturn]] void fail(const Group& group, const Call& call, std::string_view what, std::string_view advice);

  /// Raises after a failure.
  void check_none(const Group& group, const Call& call) const;

 private:
  mutable std::mutex mutex_;
  std::string text_; // empty: none
};

} // namespace weft
